import { expect, setDefaultTimeout, test } from "bun:test";
import type { Backend } from "../../src/backends/backend.ts";
import { iptables } from "../../src/backends/iptables/index.ts";
import { ipvs } from "../../src/backends/ipvs/index.ts";
import { nftables } from "../../src/backends/nftables/index.ts";
import { ObjectStore } from "../../src/kube/object-store.ts";
import type { ProxyMode } from "../../src/model/context.ts";
import { parseEndpointSlice } from "../../src/model/endpoint-slice-parse.ts";
import type { FamilyName } from "../../src/model/family.ts";
import { parseNode } from "../../src/model/node-parse.ts";
import type { Note, Parsed } from "../../src/model/note.ts";
import type { Plan } from "../../src/model/plan.ts";
import { makePlan } from "../../src/model/planner.ts";
import { parseService } from "../../src/model/service-parse.ts";
import type { Step, StepResult } from "../../src/model/step.ts";
import { testContext } from "../model/context.ts";
import { Random, type RawService } from "../model/random.ts";
import { faultOf } from "./grammar.ts";
import { fuzzNode, fuzzService, hugeService } from "./objects.ts";

setDefaultTimeout(600_000);

const seed = Number(process.env["KP_FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const wanted = Number(process.env["KP_FUZZ_COUNT"] ?? 100_000);
console.log(`fuzz: KP_FUZZ_SEED=${seed} KP_FUZZ_COUNT=${wanted}`);

const modes: readonly ProxyMode[] = ["iptables", "nftables", "ipvs"];
const backends: Readonly<Record<ProxyMode, Backend<unknown, unknown>>> = {
  iptables: iptables as Backend<unknown, unknown>,
  nftables: nftables as Backend<unknown, unknown>,
  ipvs: ipvs as Backend<unknown, unknown>,
};

interface Counts {
  objects: number;
  dropped: number;
  notes: number;
}

/** Parses into the store as the reflector does; checks the notes. */
function take<T>(parsed: Parsed<T>, put: (value: T) => void, counts: Counts): void {
  counts.objects++;
  counts.notes += parsed.notes.length;
  for (const note of parsed.notes) checkNote(note);
  if (parsed.value === undefined) counts.dropped++;
  else put(parsed.value);
}

/** Notes are printed: one line each, not endless. */
function checkNote(note: Note): void {
  const text = JSON.stringify(note);
  if (text.length > 3000) throw new Error(`a note of ${text.length} characters: ${text.slice(0, 300)}`);
}

function takeService(store: ObjectStore, raw: RawService, counts: Counts): void {
  take(parseService(raw.service), (s) => store.services.set(s.key, s), counts);
  for (const slice of raw.slices) {
    take(parseEndpointSlice(slice), (s) => store.endpointSlices.set(`${s.serviceKey}/${s.name}`, s), counts);
  }
}

/** What a kernel without anything of ours answers. */
function emptyKernel(steps: readonly Step[]): StepResult[] {
  return steps.map((s) => ({
    exitCode: s.kind === "exec" && s.tool === "nft" ? 1 : 0,
    stdout: "",
    stderr: s.kind === "exec" && s.tool === "nft" ? "Error: No such file or directory" : "",
  }));
}

interface Programmed {
  plan: Plan | undefined;
  state: unknown;
}

/** Plans and prints what would be written from nothing, or from the state before. Throws what is wrong. */
function program(store: ObjectStore, mode: ProxyMode, family: FamilyName, before: Programmed): Programmed {
  const context = testContext(mode, family);
  const backend = backends[mode];
  const plan = makePlan(store.snapshot(), context, before.plan);
  const state = backend.desired(plan, context, before.state);
  const from =
    before.state === undefined
      ? ({
          kind: "observed",
          observed: backend.observe(context).parse(emptyKernel(backend.observe(context).steps)),
        } as const)
      : ({ kind: "state", state: before.state } as const);
  const change = backend.diff(from, state, context, 0);
  const fault = faultOf(change.steps);
  if (fault !== undefined) throw new Error(`${mode} ${family}: ${fault}`);
  return { plan, state: change.state };
}

test(`${wanted} objects, seed ${seed}: no crash, nothing foreign, nothing unquoted`, () => {
  const random = new Random(seed);
  const counts: Counts = { objects: 0, dropped: 0, notes: 0 };
  let round = 0;
  for (; counts.objects < wanted; round++) {
    const store = new ObjectStore("node-1");
    const programmed = new Map<string, Programmed>();
    // Half the rounds are nearly valid, so that most of it reaches the tools.
    const percent = random.pick([0, 1, 1, 4, 20]);
    try {
      for (let step = 0; step < 2; step++) {
        for (let i = 0; i < 60; i++) takeService(store, fuzzService(random, random.below(250), percent), counts);
        take(parseNode(fuzzNode(random, percent)), (n) => store.nodes.set(n.name, n), counts);
        for (const mode of modes)
          for (const family of ["IPv4", "IPv6"] as const) {
            const key = `${mode} ${family}`;
            programmed.set(
              key,
              program(store, mode, family, programmed.get(key) ?? { plan: undefined, state: undefined }),
            );
          }
      }
    } catch (error) {
      throw new Error(`seed ${seed}, round ${round}: ${error instanceof Error ? error.stack : String(error)}`);
    }
  }
  console.log(
    `fuzz: ${counts.objects} objects in ${round} rounds, ${counts.dropped} not used, ${counts.notes} remarks`,
  );
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  // The generator is no fake: some of it is refused, most is used.
  expect(counts.dropped).toBeGreaterThan(counts.objects / 100);
  expect(counts.dropped).toBeLessThan(counts.objects / 2);
});

test("70,000 endpoints in one Service", () => {
  const store = new ObjectStore("node-1");
  const counts: Counts = { objects: 0, dropped: 0, notes: 0 };
  takeService(store, hugeService(70_000), counts);
  expect(counts).toEqual({ objects: 71, dropped: 0, notes: 0 });
  for (const mode of modes) {
    const { plan } = program(store, mode, "IPv4", { plan: undefined, state: undefined });
    expect([...(plan?.services.values() ?? [])][0]?.ports[0]?.endpoints.length).toBe(70_000);
  }
});

test("the grammar itself refuses what it must", () => {
  const step = (tool: string, line: string): Step => ({
    kind: "exec",
    tool,
    args: [],
    about: "",
    input: [`${line}\n`],
  });
  for (const line of [
    "-A INPUT -j ACCEPT",
    "-A KUBE-SERVICES -m comment --comment x -j INJECT",
    '-A KUBE-SERVICES -m comment --comment "x" -j ACCEPT -j DROP',
    '-A KUBE-SERVICES -m comment --comment "x',
    "-P INPUT DROP",
    "*raw",
    ":INPUT DROP [0:0]",
  ])
    expect(faultOf([step("iptables-restore", line)]), line).toBeDefined();
  for (const line of [
    "add table ip other",
    "flush ruleset",
    'add rule ip kube-proxy services comment "x" ; drop "',
    "table ip kube-proxy {\n\tchain c {\nip daddr 1.2.3.4 quarantine\n\t}\n}",
    'table ip kube-proxy {\n\tchain c {\naccept comment "x" }; drop "\n\t}\n}',
    "table ip kube-proxy {\n\tchain c {\n}\n\t}\n}",
    "table ip kube-proxy {",
    "add table inet kube-proxy",
    "delete table ip filter",
  ])
    expect(faultOf([step("nft", line)]), line).toBeDefined();
  expect(faultOf([step("ipset", "add OTHER 1.2.3.4")])).toBeDefined();
  expect(faultOf([step("ipvsadm", "-C")])).toBeDefined();
});
