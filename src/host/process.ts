/** This process as the kernel sees it: out-of-memory score and capabilities. */
import { readFileSync, writeFileSync } from "node:fs";
import { errorCode } from "./sysctl.ts";

/** Sets our own oom_score_adj (-1000 to 1000). Returns one line when it could not be set, which is never fatal. */
export function setOomScoreAdj(value: number, path = "/proc/self/oom_score_adj"): string | undefined {
  try {
    if (Number(readFileSync(path, "utf8")) === value) return undefined;
    writeFileSync(path, `${value}\n`, { flag: "r+" });
    return undefined;
  } catch (error) {
    return `cannot set ${path} to ${value} (${errorCode(error)}); lowering it needs CAP_SYS_RESOURCE`;
  }
}

/** Names of the effective capabilities, without `CAP_`, lower case; undefined when /proc does not say. */
export function capabilities(path = "/proc/self/status"): ReadonlySet<string> | undefined {
  try {
    return parseCapabilities(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}

/** From the text of /proc/PID/status. Bits without a name here are called `capN`. */
export function parseCapabilities(status: string): ReadonlySet<string> | undefined {
  const mask = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  if (mask === undefined) return undefined;
  const bits = BigInt(`0x${mask}`);
  const names = new Set<string>();
  for (let i = 0; i < 64; i++) if ((bits >> BigInt(i)) & 1n) names.add(capabilityNames[i] ?? `cap${i}`);
  return names;
}

/** In the kernel's order (include/uapi/linux/capability.h). */
const capabilityNames =
  "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore".split(
    " ",
  );
