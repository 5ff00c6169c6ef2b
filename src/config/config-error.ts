/** What is wrong with a command line or a configuration file: every fault of it, one line each. */

export interface Fault {
  /** `file:line:column`, `file`, or the flag that set the value. */
  readonly where: string;
  /** Field path as the user wrote it (`iptables.masqueradeBit`), the flag (`--bind-address`), or `line N (syntax)`. */
  readonly field: string;
  /** The value at fault as text; undefined where there is none. */
  readonly value: string | undefined;
  /** What is wrong, and what is allowed. */
  readonly message: string;
  /** What to do; empty: the message says it. */
  readonly hint: string;
}

/** A remark that does not stop the start. `fields` is empty when it is not about fields of the file. */
export interface Warning {
  readonly fields: readonly string[];
  readonly message: string;
}

/** The user's mistake, never ours: print `lines()` and exit 1, without a stack trace. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    super(faults.map(printFault).join("; "));
    this.faults = faults;
  }

  /** One printable line for each fault. */
  lines(): readonly string[] {
    return this.faults.map(printFault);
  }
}

/** `config.yaml:3:18: iptables.masqueradeBit: 99 is not …, hint`. */
export function printFault(fault: Fault): string {
  const place = [fault.where, fault.field].filter((part, i, all) => part !== "" && all.indexOf(part) === i).join(": ");
  const value = fault.value === undefined ? "" : `${fault.value}: `;
  const hint = fault.hint === "" ? "" : ` (${fault.hint})`;
  return escapeUnprintable(`${place}: ${value}${fault.message}${hint}`);
}

/** Whatever a flag, a field name or a parser's message holds, it stays on its line and does not reach the terminal. */
function escapeUnprintable(line: string): string {
  return line.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (mark) => `\\u{${(mark.codePointAt(0) ?? 0).toString(16)}}`);
}

/** A fault whose value is shown quoted, cut and with control characters escaped. */
export function fault(where: string, field: string, value: unknown, message: string, hint = ""): Fault {
  return { where, field, value: value === undefined ? undefined : showValue(value), message, hint };
}

/** A value as short, printable JSON. */
export function showValue(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
