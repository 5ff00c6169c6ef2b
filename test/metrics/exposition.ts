/** Reads the text format strictly, by its specification, not by the code that writes it. */

export type Samples = ReadonlyMap<string, number>;

const line = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$/;

/** Samples by `name{label="value",…}` with labels sorted. Throws at a line that is none. */
export function parseExposition(text: string): Samples {
  const samples = new Map<string, number>();
  for (const row of text.split("\n")) {
    if (row === "" || row.startsWith("# HELP ") || row.startsWith("# TYPE ")) continue;
    const [, name, labels = "", value = ""] = line.exec(row) ?? [];
    if (!name) throw new Error(`not a sample: ${row}`);
    const sorted = [...labels.matchAll(/([a-zA-Z0-9_]+)="((?:[^"\\]|\\.)*)"/g)].map((m) => `${m[1]}="${m[2]}"`).sort();
    const key = sorted.length > 0 ? `${name}{${sorted.join(",")}}` : name;
    if (samples.has(key)) throw new Error(`twice: ${key}`);
    const number = value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value);
    if (Number.isNaN(number) && value !== "NaN") throw new Error(`not a number: ${row}`);
    samples.set(key, number);
  }
  return samples;
}

/** What promtool says; undefined when it is not installed. */
export function promtool(text: string): { readonly code: number; readonly lines: readonly string[] } | undefined {
  const program = Bun.which("promtool");
  if (!program) return undefined;
  const run = Bun.spawnSync([program, "check", "metrics"], { stdin: Buffer.from(text) });
  const lines = `${run.stdout}${run.stderr}`.split("\n").filter(Boolean);
  return { code: run.exitCode, lines };
}
