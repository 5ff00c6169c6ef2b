/** Two Services that claim one address and port, or one node port: the older one has it, the other goes without. */
import type { PortPlan, ServicePlan } from "./plan.ts";

export interface Claims {
  /** By the key of the Service that lost. */
  readonly lost: ReadonlyMap<string, ReadonlySet<string>>;
  readonly conflicts: readonly string[];
}

const nothing: Claims = { lost: new Map(), conflicts: [] };

/** Everything that must be unique on this node, as `ip/proto/port` or `/proto/nodePort`. */
export function frontendsOf(port: PortPlan): readonly string[] {
  const at = (ip: string): string => `${ip}/${port.protocol}/${port.port}`;
  const out = [at(port.clusterIP), ...port.externalIPs.map(at), ...port.loadBalancerIPs.map(at)];
  if (port.nodePort !== 0) out.push(`/${port.protocol}/${port.nodePort}`);
  return out;
}

/** Whether two plans of one Service claim the same. */
export function sameFrontends(a: ServicePlan | undefined, b: ServicePlan | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.ports.length !== b.ports.length || a.input.service.createdAt !== b.input.service.createdAt) return false;
  return a.ports.every((p, i) => {
    const other = b.ports[i];
    return other !== undefined && frontendsOf(p).join() === frontendsOf(other).join();
  });
}

/**
 * Who has what two Services claim, so that every node decides alike and no tool sees a key twice (kubernetes#69599).
 * A cluster IP beats any other claim to the address (the API server hands each out once); then age decides, then the name.
 */
export function settleClaims(plans: Iterable<ServicePlan>): Claims {
  const owners = new Map<string, Claimant>();
  const lost = new Map<string, Set<string>>();
  const conflicts: string[] = [];
  for (const plan of plans) {
    for (const port of plan.ports) {
      for (const [i, frontend] of frontendsOf(port).entries()) {
        const claimant: Claimant = { plan, cluster: i === 0 };
        const owner = owners.get(frontend);
        if (owner?.plan === plan) continue;
        const wins = owner === undefined || isBefore(claimant, owner);
        if (wins) owners.set(frontend, claimant);
        if (owner === undefined) continue;
        const [winner, loser] = wins ? [claimant, owner] : [owner, claimant];
        conflicts.push(conflictLine(frontend, winner.plan.key, loser.plan.key));
        const set = lost.get(loser.plan.key) ?? new Set();
        lost.set(loser.plan.key, set.add(frontend));
      }
    }
  }
  return conflicts.length === 0 ? nothing : { lost, conflicts };
}

/** The plan without the frontends that it lost. A port that lost its cluster IP goes altogether. */
export function withoutLost(plan: ServicePlan, lost: ReadonlySet<string>): ServicePlan {
  const ports = plan.ports
    .filter((p) => !lost.has(`${p.clusterIP}/${p.protocol}/${p.port}`))
    .map((p) => {
      const keep = (ip: string): boolean => !lost.has(`${ip}/${p.protocol}/${p.port}`);
      return {
        ...p,
        externalIPs: p.externalIPs.filter(keep),
        loadBalancerIPs: p.loadBalancerIPs.filter(keep),
        nodePort: lost.has(`/${p.protocol}/${p.nodePort}`) ? 0 : p.nodePort,
      };
    });
  return { ...plan, ports };
}

// --- internal ---

interface Claimant {
  readonly plan: ServicePlan;
  readonly cluster: boolean;
}

function isBefore(a: Claimant, b: Claimant): boolean {
  if (a.cluster !== b.cluster) return a.cluster;
  const age = a.plan.input.service.createdAt - b.plan.input.service.createdAt;
  return age !== 0 ? age < 0 : a.plan.key < b.plan.key;
}

function conflictLine(frontend: string, winner: string, loser: string): string {
  const [ip, protocol, port] = frontend.split("/");
  const what = ip === "" ? `node port ${port}/${protocol}` : `${ip} port ${port}/${protocol}`;
  return `${what} is claimed by ${winner} and ${loser}: ${winner} has it (cluster IPs first, then the older Service)`;
}
