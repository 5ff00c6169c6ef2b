/** From the state last applied to the desired one: only the chains, sets and elements that differ, in one transaction. */
import type { Context } from "../../model/context.ts";
import { type NftChain, type NftSet, printRule, printSetSpec } from "../../tools/nft.ts";
import type { Change } from "../backend.ts";
import { type Edit, elementId, newEdit, sameElement, usesAny } from "./edit.ts";
import { type NftState, type Objects, type ServiceObjects, sharedSets } from "./state.ts";
import { changeOf, IDLE_REMOVAL_MS } from "./transactions.ts";

/** The change between two known states. Nothing of the kernel is read for it. */
export function diffStates(from: NftState, to: NftState, context: Context, now: number): Change<NftState> {
  const edit = newEdit();
  if (from.base !== to.base) editObjects(edit, from.base, to.base);
  editServices(edit, from.services, to.services);
  keepShared(edit, to);
  return changeOf(edit, to, from.condemned, context, now, IDLE_REMOVAL_MS);
}

function editServices(edit: Edit, from: NftState["services"], to: NftState["services"]): void {
  if (from === to) return;
  // Side by side while the keys are the same, which needs no look-ups; mostly that is all.
  const before = from.values();
  let inStep = true;
  let known = 0;
  for (const [key, objects] of to) {
    const next: ServiceObjects | undefined = inStep ? before.next().value : undefined;
    inStep &&= next?.plan.key === key;
    const old = inStep ? next : from.get(key);
    if (old !== undefined) known++;
    if (old !== objects) editObjects(edit, old, objects);
  }
  if (known < from.size) for (const [key, objects] of from) if (!to.has(key)) editObjects(edit, objects, undefined);
}

/** Adds what leads from one group of objects to its successor. */
function editObjects(edit: Edit, before: Objects | undefined, after: Objects | undefined): void {
  const oldChains = new Map(before?.chains.map((chain) => [chain.name, chain]));
  for (const chain of after?.chains ?? []) {
    const old = oldChains.get(chain.name);
    oldChains.delete(chain.name);
    if (old !== undefined && sameRules(old, chain)) continue;
    edit.addChains.set(chain.name, chain);
    if (old !== undefined) edit.flushChains.add(chain.name);
  }
  for (const name of oldChains.keys()) edit.stale.add(name);

  const oldSets = new Map(before?.sets.map((set) => [set.name, set]));
  const replaced = new Set<string>();
  for (const set of after?.sets ?? []) {
    const old = oldSets.get(set.name);
    oldSets.delete(set.name);
    if (old !== undefined && sameSpec(old, set)) continue;
    edit.addSets.set(set.name, set);
    if (old === undefined) continue;
    edit.deleteSets.add(set.name);
    replaced.add(set.name);
  }
  for (const name of oldSets.keys()) edit.deleteSets.add(name);
  // A set can only be replaced while no rule uses it.
  if (replaced.size > 0) rewriteUsers(edit, before, after, replaced);
  editElements(edit, before, after);
}

function editElements(edit: Edit, before: Objects | undefined, after: Objects | undefined): void {
  const old = new Map(before?.elements.map((element) => [elementId(element), element]));
  for (const element of after?.elements ?? []) {
    const id = elementId(element);
    const was = old.get(id);
    old.delete(id);
    if (was !== undefined && sameElement(was, element)) continue;
    // A map's element cannot be changed, only removed and added again, which in one transaction is one moment.
    if (was !== undefined) edit.deleteElements.set(id, was);
    edit.addElements.set(id, element);
  }
  for (const [id, element] of old) if (!edit.deleteSets.has(element.set)) edit.deleteElements.set(id, element);
}

function rewriteUsers(
  edit: Edit,
  before: Objects | undefined,
  after: Objects | undefined,
  sets: ReadonlySet<string>,
): void {
  const old = new Set(before?.chains.map((chain) => chain.name));
  for (const chain of after?.chains ?? []) {
    if (!old.has(chain.name) || !chain.rules.some((rule) => usesAny(rule.expression, sets))) continue;
    edit.flushChains.add(chain.name);
    edit.addChains.set(chain.name, chain);
  }
}

/** An element of a shared set stays while any other Service wants it. One pass over the Services, only when one is to go. */
function keepShared(edit: Edit, to: NftState): void {
  const leaving = [...edit.deleteElements].filter(([, element]) => sharedSets.has(element.set)).map(([id]) => id);
  if (leaving.length === 0) return;
  const candidates = new Set(leaving);
  for (const objects of to.services.values()) {
    for (const element of objects.elements) {
      if (!sharedSets.has(element.set)) break;
      const id = elementId(element);
      if (candidates.delete(id)) edit.deleteElements.delete(id);
    }
    if (candidates.size === 0) return;
  }
}

export function sameRules(a: NftChain, b: NftChain): boolean {
  if (a === b || a.rules === b.rules) return true;
  return a.rules.length === b.rules.length && a.rules.every((rule, i) => sameText(rule, b.rules[i]));
}

function sameText(a: NftChain["rules"][number], b: NftChain["rules"][number] | undefined): boolean {
  return b !== undefined && printRule(a) === printRule(b);
}

function sameSpec(a: NftSet, b: NftSet): boolean {
  return a === b || printSetSpec(a).join() === printSetSpec(b).join();
}
