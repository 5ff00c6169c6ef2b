/** Why the process ends: one way to say it, so that only main.ts exits. */

/** Thrown to end the start-up, or given to the running proxy. Code 0: as intended; else `message` is the last line. */
export class Exit extends Error {
  override readonly name = "Exit";
  readonly code: number;

  constructor(code: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
