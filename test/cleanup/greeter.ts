/** Greets every TCP connection: `bun test/cleanup/greeter.ts HOST PORT [HOST PORT]…`. Prints `listening`. */
const words = process.argv.slice(2);
for (let i = 0; i + 1 < words.length; i += 2) {
  Bun.listen({
    hostname: words[i] ?? "",
    port: Number(words[i + 1]),
    socket: {
      open: (socket) => void socket.write("hello\n"),
      data() {},
      error() {},
    },
  });
}
console.log("listening");
