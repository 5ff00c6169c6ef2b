/** Every kernel object that an explanation names is in the backend's state, for random clusters and packets. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { iptables } from "../../src/backends/iptables/index.ts";
import { ipvs } from "../../src/backends/ipvs/index.ts";
import { nftables } from "../../src/backends/nftables/index.ts";
import { explainPacket } from "../../src/explain/explain.ts";
import { objectText } from "../../src/explain/object-text.ts";
import type { KernelObject } from "../../src/explain/verdict.ts";
import type { Context, ProxyMode } from "../../src/model/context.ts";
import type { FamilyName } from "../../src/model/family.ts";
import type { Plan } from "../../src/model/plan.ts";
import { makePlan } from "../../src/model/planner.ts";
import { printRule, type Rule } from "../../src/tools/iptables.ts";
import { Random } from "../model/random.ts";
import { randomContext, randomPackets, randomSnapshot } from "./arbitrary.ts";
import { tablesOf } from "./iptables-mode.ts";
import { ipvsTables } from "./ipvs-mode.ts";
import { tableOf } from "./nftables-mode.ts";

setDefaultTimeout(120_000);

type Has = (object: KernelObject) => boolean;

function ruleIn(chain: readonly Rule[] | undefined, words: readonly string[]): boolean {
  if (chain === undefined || words.length === 0) return chain !== undefined;
  return chain.some((rule) => words.every((word) => `${printRule(rule).trim()} `.includes(` ${word} `)));
}

function stateHas(plan: Plan, context: Context): Has {
  if (context.mode === "iptables") {
    const tables = tablesOf(iptables.desired(plan, context, undefined));
    return (o) => o.tool === "iptables" && ruleIn(tables[o.table].get(o.chain), o.words ?? []);
  }
  if (context.mode === "nftables") {
    const table = tableOf(nftables.desired(plan, context, undefined));
    return (o) => {
      if (o.tool !== "nft") return false;
      return o.kind === "chain" ? table.chains.has(o.name) : table.sets.get(o.name)?.has(o.key) === true;
    };
  }
  const tables = ipvsTables(ipvs.desired(plan, context, undefined));
  return (o) => {
    switch (o.tool) {
      case "iptables":
        return ruleIn(tables[o.table].get(o.chain), o.words ?? []);
      case "ipset":
        return tables.sets.get(o.set)?.has(o.entry) === true;
      case "ip":
        return tables.addresses.has(o.address);
      case "ipvsadm": {
        const server = tables.servers.get(`${o.protocol} ${o.at}`);
        return server !== undefined && (o.real === undefined || server.reals.has(o.real));
      }
      default:
        return false;
    }
  };
}

for (const mode of ["iptables", "nftables", "ipvs"] as ProxyMode[])
  for (const family of ["IPv4", "IPv6"] as FamilyName[])
    test(`${mode} ${family}: what is named is there`, () => {
      const lost = new Set<string>();
      let named = 0;
      for (let seed = 1; seed <= 25; seed++) {
        const random = new Random(seed * 104729);
        const { context, here } = randomContext(random, mode, family);
        const plan = makePlan(randomSnapshot(random, context), context);
        const has = stateHas(plan, context);
        for (const packet of randomPackets(random, plan, context, here, 80)) {
          const verdict = explainPacket(plan, context, packet, here);
          for (const step of verdict.steps)
            for (const object of step.objects) {
              named++;
              if (!has(object) && lost.size < 8)
                lost.add(`seed ${seed}: ${objectText(object, context.family)} of step "${step.text}"`);
            }
        }
      }
      expect([...lost]).toEqual([]);
      expect(named).toBeGreaterThan(3000);
    });
