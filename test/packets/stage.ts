/** What a story has at hand: its own Services in a running cluster, connections to them, and a place for its faults. */
import type { FamilyName } from "../../src/model/family.ts";
import type { Cluster } from "../lab/cluster.ts";
import { type Attempt, type Flow, type Outcome, openFlow } from "../lab/probe.ts";
import { type Place, placeAddress, placeSpace, podNamed } from "../lab/topology.ts";
import { outcomeText } from "./judge.ts";
import { doorAddress, type Placed, placeServices, serviceObjects, sliceObjects } from "./objects.ts";
import type { Door, Mode, ServiceSpec, Transport } from "./row.ts";

export interface Story {
  readonly name: string;
  /** Absent: all. */
  readonly modes?: readonly Mode[];
  readonly families?: readonly FamilyName[];
  run(stage: Stage): Promise<void>;
}

export class Stage {
  readonly faults = new Map<FamilyName, string[]>();
  connections = 0;
  private services: Placed[] = [];

  constructor(
    readonly name: string,
    readonly mode: Mode,
    readonly families: readonly FamilyName[],
    readonly cluster: Cluster,
    /** Milliseconds that an answer may take. */
    readonly patience: number,
    /** Starts the proxy again after `cluster.stopProxy()`; nftables: with the layout that it did not have at first. */
    readonly startProxy: (otherLayout: boolean) => Promise<void>,
    private readonly takeId: () => number,
  ) {}

  fault(family: FamilyName, text: string): void {
    this.faults.set(family, [...(this.faults.get(family) ?? []), `${this.name} | ${family}: ${text}`]);
  }

  /** Creates Services and waits until they are programmed. */
  async create(...specs: readonly ServiceSpec[]): Promise<Placed[]> {
    const made = specs.map((spec): Placed => {
      const id = this.takeId();
      const row = { name: this.name, setting: "plain" as const, services: [spec], packets: [] };
      const placed = placeServices([row], id).get(row)?.get(spec.name);
      if (placed === undefined) {
        throw new Error(`no place for ${spec.name}`);
      }
      return placed;
    });
    this.services.push(...made);
    await this.cluster.apply(made.flatMap(serviceObjects));
    await this.cluster.settle();
    return made;
  }

  /** Replaces a Service's endpoints and waits until that is programmed. */
  async setEndpoints(service: Placed, endpoints: ServiceSpec["endpoints"]): Promise<void> {
    await this.cluster.apply(sliceObjects(service, endpoints));
    await this.cluster.settle();
  }

  /** Changes fields of a Service that do not change its addresses, and waits. */
  async change(service: Placed, fields: Partial<ServiceSpec>): Promise<void> {
    const { endpoints: _, ...spec } = { ...service.spec, ...fields };
    await this.cluster.apply(serviceObjects({ ...service, spec: { ...spec, endpoints: [] } }).slice(0, 1));
    await this.cluster.settle();
  }

  async remove(service: Placed): Promise<void> {
    await this.cluster.remove(serviceObjects(service));
    await this.cluster.settle();
    this.services = this.services.filter((one) => one !== service);
  }

  async removeAll(): Promise<void> {
    await this.cluster.remove(this.services.flatMap(serviceObjects));
    this.services = [];
  }

  attempt(from: Place, service: Placed, door: Door, family: FamilyName, transport: Transport = "tcp"): Attempt {
    const source = placeAddress(from, family);
    return {
      namespace: this.cluster.lab.space(placeSpace(from)),
      kind: transport,
      ...(source === undefined ? {} : { source }),
      ...doorAddress(service, door, family),
      patience: this.patience,
    };
  }

  async probe(attempts: readonly Attempt[], atOnce = 400): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    for (let i = 0; i < attempts.length; i += atOnce) {
      outcomes.push(...(await this.cluster.lab.probe(attempts.slice(i, i + atOnce))));
    }
    this.connections += attempts.length;
    return outcomes;
  }

  async open(attempt: Attempt): Promise<Flow> {
    this.connections++;
    return this.cluster.lab.during(openFlow(this.cluster.lab.wire, attempt));
  }

  async ask(flow: Flow, patience = this.patience): Promise<Outcome> {
    return this.cluster.lab.during(flow.ask(patience));
  }

  /** Serves the lab and lets time pass. */
  async wait(ms: number): Promise<void> {
    await this.cluster.lab.wire.until(() => false, ms);
  }

  /** Name of the pod that answered, or what came instead. */
  who(outcome: Outcome, family: FamilyName): string {
    return outcome.kind === "answered" ? (podNamed(outcome.by, family) ?? outcome.by) : outcomeText(outcome, family);
  }
}
