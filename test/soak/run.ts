/** `unshare -n -m env KP_NETNS=1 bun test/soak/run.ts --minutes 60 --services 1000 --mode nftables`: an hour of churn, figures each minute. */
import { parseArgs } from "node:util";
import { halves, soak } from "./soak.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    services: { type: "string", default: "1000" },
    mode: { type: "string", default: "nftables" },
    seed: { type: "string", default: "1" },
  },
});
if (process.env["KP_NETNS"] !== "1") {
  console.error("Run it in a namespace of its own: unshare -n -m env KP_NETNS=1 bun test/soak/run.ts …");
  process.exit(2);
}
const { samples, log } = await soak({
  mode: values.mode === "iptables" ? "iptables" : "nftables",
  seconds: Number(values.minutes) * 60,
  services: Number(values.services),
  every: 60,
  seed: Number(values.seed),
  onSample: (s) => console.log(`${s.atSeconds} s: ${s.resident} MB resident, ${s.files} files, ${s.changes} changes`),
});
const { resident, files } = halves(samples);
console.log(
  `most in the first half: ${resident[0]} MB, ${files[0]} files; in the second: ${resident[1]} MB, ${files[1]} files`,
);
console.log(`failed syncs: ${log.split("Sync failed").length - 1}`);
process.exit(0);
