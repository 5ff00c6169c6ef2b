/** Runs something inside a user-mode Linux guest from a test; one boot is about three seconds, so tests share boots. */

const root = `${import.meta.dir}/../..`;

export interface GuestResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Why no guest can run here, or undefined. */
export function guestUnavailable(): string | undefined {
  if (process.getuid?.() !== 0) return "user-mode Linux needs root (hostfs)";
  return Bun.which("linux.uml") === null ? "the Debian package user-mode-linux is not installed" : undefined;
}

/** `seconds`: the guest is killed after that. */
export async function runInGuest(argv: readonly string[], seconds: number): Promise<GuestResult> {
  const child = Bun.spawn([`${root}/scripts/uml`, ...argv], {
    cwd: root,
    env: { ...process.env, UML_TIMEOUT: `${seconds}` },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { exitCode, stdout, stderr };
}
