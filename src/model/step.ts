/** What the shell is asked to do to the host: plain data that `host/run.ts` executes. */

export interface ExecStep {
  readonly kind: "exec";
  /** Tool name (`nft`, `iptables-restore`, …); the shell resolves it to an absolute path. */
  readonly tool: string;
  readonly args: readonly string[];
  /** Standard input in pieces, written in order. */
  readonly input?: readonly string[];
  /** Non-zero exits are a result, not an error. */
  readonly mayFail?: boolean;
  /** Anything on standard error is a failure too: `ipvsadm -R` goes on after a bad line and then exits 0 (measured). */
  readonly stderrFails?: boolean;
  /** Default 30,000. */
  readonly timeoutMs?: number;
  /** For logs and errors: what this is about, e.g. `KUBE-SVC chains 1–300`. */
  readonly about: string;
}

export interface SysctlStep {
  readonly kind: "sysctl";
  /** Path below /proc/sys, e.g. `net/ipv4/ip_forward`. */
  readonly name: string;
  readonly value: number;
  /** `differs`: write unless equal. `below`: write only to raise it. */
  readonly when: "differs" | "below";
  /** A failure is an error (else a warning). */
  readonly required: boolean;
  /** Do nothing, silently, where the file does not exist. */
  readonly optional?: boolean;
  readonly about: string;
}

export interface PauseStep {
  readonly kind: "pause";
  readonly ms: number;
  readonly about: string;
}

export type Step = ExecStep | SysctlStep | PauseStep;

export interface StepResult {
  /** 0 for steps that are not `exec`; -1 when the tool is missing (only with mayFail). */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}
