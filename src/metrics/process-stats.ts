/** The process_* values, parsed from the texts of /proc. Pure. What cannot be read is left out. */

export interface ProcTexts {
  readonly selfStat: string | undefined;
  readonly selfStatus: string | undefined;
  readonly selfLimits: string | undefined;
  readonly selfNetstat: string | undefined;
  /** /proc/stat, or its `btime` line. */
  readonly stat: string | undefined;
  readonly openFds: number | undefined;
}

/** Linux reports process times to user space in 1/100 s on every architecture Bun runs on. */
const ticksPerSecond = 100;

/** Values by metric name. */
export function processStats(texts: ProcTexts): Readonly<Record<string, number>> {
  const values: Record<string, number | undefined> = {
    ...fromStat(texts.selfStat, texts.stat),
    ...fromLimits(texts.selfLimits),
    ...fromNetstat(texts.selfNetstat),
    process_open_fds: texts.openFds,
    // Not from stat, which counts pages of a size that differs between machines.
    process_resident_memory_bytes: Number(/^VmRSS:\s+(\d+) kB/m.exec(texts.selfStatus ?? "")?.[1] ?? Number.NaN) * 1024,
  };
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, number] => Number.isFinite(entry[1])),
  );
}

function fromStat(selfStat: string | undefined, stat: string | undefined): Record<string, number | undefined> {
  // The command name may hold spaces and brackets: count fields from the last one. Field 3 (state) comes first.
  const fields = selfStat?.slice(selfStat.lastIndexOf(")") + 2).split(" ") ?? [];
  const field = (number: number) => Number(fields[number - 3] ?? Number.NaN);
  const boot = Number(/^btime (\d+)/m.exec(stat ?? "")?.[1] ?? Number.NaN);
  return {
    process_cpu_seconds_total: (field(14) + field(15)) / ticksPerSecond,
    process_start_time_seconds: Number((boot + field(22) / ticksPerSecond).toFixed(2)),
    process_virtual_memory_bytes: field(23),
  };
}

function fromLimits(limits: string | undefined): Record<string, number | undefined> {
  const soft = (name: string) => {
    const value = new RegExp(`^${name} +(\\S+)`, "m").exec(limits ?? "")?.[1];
    return value === "unlimited" ? undefined : Number(value ?? Number.NaN);
  };
  const memory = /^Max address space +unlimited/m.test(limits ?? "") ? unlimited : soft("Max address space");
  return { process_max_fds: soft("Max open files"), process_virtual_memory_max_bytes: memory };
}

/** What Go's client prints for RLIM_INFINITY. */
const unlimited = 2 ** 64;

function fromNetstat(netstat: string | undefined): Record<string, number | undefined> {
  // Two lines a group: names, then values.
  const [names = [], values = []] = (netstat ?? "")
    .split("\n")
    .filter((line) => line.startsWith("IpExt:"))
    .map((line) => line.split(" "));
  const named = (name: string) => Number(values[names.indexOf(name)] ?? Number.NaN);
  return {
    process_network_receive_bytes_total: named("InOctets"),
    process_network_transmit_bytes_total: named("OutOctets"),
  };
}
