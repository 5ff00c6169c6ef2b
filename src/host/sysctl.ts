/** Reads and writes /proc/sys, and executes sysctl steps: read first, write only a difference, say both ways out when that fails. */
import { readFileSync, writeFileSync } from "node:fs";
import type { SysctlStep } from "../model/step.ts";

export const procSys = "/proc/sys";

/** The first number in the file; undefined when the file is absent or holds none. Throws on other errors. */
export function readSysctl(name: string, root: string = procSys): number | undefined {
  try {
    const text = readFileSync(`${root}/${name}`, "utf8").trim();
    const value = Number.parseInt(text, 10);
    return Number.isNaN(value) ? undefined : value;
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

export type SysctlOutcome =
  | { readonly kind: "written"; readonly from: number | undefined }
  | { readonly kind: "kept"; readonly current: number }
  | { readonly kind: "absent" }
  | { readonly kind: "failed"; readonly detail: string; readonly cause: unknown };

/** Does what the step asks for; never throws. */
export function applySysctl(step: SysctlStep, root: string = procSys): SysctlOutcome {
  const path = `${root}/${step.name}`;
  let current: number | undefined;
  try {
    current = readSysctl(step.name, root);
  } catch (cause) {
    return { kind: "failed", detail: `cannot read ${path} (${errorCode(cause)})`, cause };
  }
  if (current === undefined && step.optional === true) return { kind: "absent" };
  if (current !== undefined && (step.when === "below" ? current >= step.value : current === step.value)) {
    return { kind: "kept", current };
  }
  try {
    writeFileSync(path, `${step.value}\n`, { flag: "r+" });
    return { kind: "written", from: current };
  } catch (cause) {
    return { kind: "failed", detail: writeFailure(path, step, current, errorCode(cause)), cause };
  }
}

function writeFailure(path: string, step: SysctlStep, current: number | undefined, code: string): string {
  const what = `cannot set ${path} to ${step.value}`;
  if (code === "ENOENT") return `${what}: this kernel has no such setting (is a module missing?)`;
  const now = current === undefined ? "" : ` (it is ${current})`;
  const readOnly = code === "EROFS" || code === "EACCES" || code === "EPERM";
  const setting = `${step.name.replaceAll("/", ".")}=${step.value}`;
  return readOnly
    ? `${what}${now}: it is read-only here (${code}); set ${setting} on the host, or run this once with the privilege (--init-only)`
    : `${what}${now}: ${code}`;
}

export function errorCode(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : String(error);
}
