/** `bun prober.ts IP PORT`: connects as often as it can and prints, when told to end, how often that worked and how often not. */
export {};

const [ip = "", port = ""] = process.argv.slice(2);
let good = 0;
let bad = 0;
let last = "";
let ending = false;
process.on("SIGTERM", () => {
  ending = true;
});
console.log("ready");
while (!ending) {
  const opened = Promise.withResolvers<boolean>();
  const limit = setTimeout(() => {
    last = "no answer";
    opened.resolve(false);
  }, 1000);
  Bun.connect({
    hostname: ip,
    port: Number(port),
    socket: {
      open: (socket) => {
        socket.terminate();
        opened.resolve(true);
      },
      data: () => {},
      connectError: (_, error) => {
        last = error.message;
        opened.resolve(false);
      },
    },
  }).catch((error) => {
    last = String(error);
    opened.resolve(false);
  });
  if (await opened.promise) good++;
  else bad++;
  clearTimeout(limit);
  await Bun.sleep(1);
}
console.log(JSON.stringify({ good, bad, last }));
process.exit(0);
