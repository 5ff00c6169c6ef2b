/**
 * Inside a guest: plays recorded ipvs cases one after the other, each in namespaces of its own.
 * `scripts/uml node_modules/.bin/bun test/uml/cases.ts [CASE…]`: one JSON line a case, then `{"identical": N, "of": M}`.
 */
import { casesOf } from "../conformance/case-file.ts";
import { run } from "./host.ts";

// The recordings were made with the bridge's hooks present.
run("modprobe", "-a", "br_netfilter", "ip_vs");
const given = process.argv.slice(2);
const names = given.length > 0 ? given : casesOf("ipvs");
let identical = 0;
for (const name of names) {
  const argv = ["unshare", "-n", "-m", process.execPath, `${import.meta.dir}/play-case.ts`, name];
  const { stdout, stderr } = Bun.spawnSync(argv, { timeout: 60_000, killSignal: "SIGKILL" });
  const line = stdout.toString().trim() || JSON.stringify({ case: name, error: stderr.toString().slice(-2000) });
  if (line.endsWith('"differences":[]}')) identical++;
  console.log(line);
}
console.log(JSON.stringify({ identical, of: names.length }));
