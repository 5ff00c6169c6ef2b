/**
 * Inside a guest: what the recorded cases cannot show, each scenario in namespaces of its own.
 * `bun test/uml/scenarios.ts`: all, one JSON line each; `… NAME`: that one, in the namespace at hand.
 */
import { run } from "./host.ts";
import { drainTcp, moveUdp, restart } from "./scenario-drain.ts";
import { cleanUp, exclude, probeHost, repair, replaceWrongSet } from "./scenario-kernel.ts";

const scenarios: Readonly<Record<string, () => Promise<void>>> = {
  drainTcp,
  moveUdp,
  restart,
  exclude,
  repair,
  replaceWrongSet,
  cleanUp,
  probeHost,
};

export const scenarioNames = Object.keys(scenarios);

if (import.meta.main) {
  const [name] = process.argv.slice(2);
  if (name === undefined) playAll();
  else {
    await scenarios[name]?.();
    console.log("ok");
    process.exit(0);
  }
}

function playAll(): void {
  run("modprobe", "-a", "br_netfilter", "ip_vs");
  for (const name of scenarioNames) {
    const argv = ["unshare", "-n", "-m", process.execPath, import.meta.path, name];
    const { exitCode, stderr } = Bun.spawnSync(argv, { timeout: 120_000, killSignal: "SIGKILL" });
    console.log(JSON.stringify({ scenario: name, ok: exitCode === 0, error: stderr.toString().slice(-3000) }));
  }
}
