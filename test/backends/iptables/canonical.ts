/** `iptables-save` output in the canonical form of the recordings (test/conformance README). */

const sorted = new Set(["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"]);

export function canonical(save: string): string {
  const out: string[] = [];
  let policies = new Map<string, string>();
  let rules = new Map<string, string[]>();
  for (const line of save.split("\n")) {
    if (line.startsWith("*")) {
      policies = new Map();
      rules = new Map();
      out.push(line);
    } else if (line.startsWith(":")) {
      const [name = "", policy = ""] = line.slice(1).split(" ");
      policies.set(name, policy);
    } else if (line.startsWith("-A ")) {
      const chain = line.split(" ")[1] ?? "";
      rules.set(chain, [...(rules.get(chain) ?? []), line]);
    } else if (line === "COMMIT") {
      out.push(...tableLines(policies, rules));
    }
  }
  return out.map((line) => `${line}\n`).join("");
}

// --- internal ---

function tableLines(policies: ReadonlyMap<string, string>, rules: ReadonlyMap<string, readonly string[]>): string[] {
  return [...policies.keys()].sort().flatMap((name) => {
    const policy = policies.get(name) ?? "";
    const own = rules.get(name) ?? [];
    if (policy !== "-" && own.length === 0) return [];
    const last = (line: string): boolean => line.includes("must be the last rule");
    const ordered = sorted.has(name) ? [...own.filter((l) => !last(l)).sort(), ...own.filter(last).sort()] : own;
    return [`:${name} ${policy}`, ...ordered];
  });
}
