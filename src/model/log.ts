/** The logger as the shell modules see it; `app/log.ts` implements it over consola. */

export type LogValue = string | number | boolean | undefined | null | readonly (string | number)[];
export type LogFields = Readonly<Record<string, LogValue>>;

export interface Log {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  /** Printed only when `-v` is at least `level`. */
  debug(level: number, message: string, fields?: LogFields): void;
}
