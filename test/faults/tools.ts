/** Wrappers put over the real tools in the mount namespace of these tests: they fail as told by files in their folder. */
import { rmSync, writeFileSync } from "node:fs";
import { newDir, sh, tryRun } from "../process/harness.ts";

export interface Wrapper {
  /** Shell text run before the real tool; `$real` is its path, `$dir` a folder, `$name` what it was called as, `$input` a file with its input. */
  set(body: string): void;
  /** The tool works as ever. */
  clear(): void;
  /** Takes the wrapper away. */
  remove(): void;
}

/**
 * Stands in for a program and all its names (`/usr/sbin/nft`, `/usr/sbin/xtables-nft-multi`). Input is kept in a file so
 * that the body can look at it.
 */
export function wrap(path: string): Wrapper {
  const dir = newDir();
  const target = sh(`readlink -f ${path}`).trim();
  const base = target.slice(target.lastIndexOf("/") + 1);
  sh(`cp ${target} ${dir}/${base}`);
  writeFileSync(
    `${dir}/wrapper`,
    `#!/bin/bash
dir=${dir} real=${dir}/${base} name=\${0##*/}
if [ -e ${dir}/body ] && [ "$name" != xtables-monitor ]; then
  input=$(mktemp ${dir}/input.XXXXXX)
  case "$name $*" in *restore*|*-f\\ -*) cat > $input;; esac
  . ${dir}/body
  (exec -a "$0" "$real" "$@") < $input
  code=$?
  rm -f $input
  exit $code
fi
exec -a "$0" "$real" "$@"
`,
    { mode: 0o755 },
  );
  sh(`mount --bind ${dir}/wrapper ${target}`);
  return {
    set: (body) => {
      writeFileSync(`${dir}/body.new`, `${body}\n`);
      sh(`mv ${dir}/body.new ${dir}/body`);
    },
    clear: () => rmSync(`${dir}/body`, { force: true }),
    remove: () => void tryRun(`umount -l ${target}`),
  };
}
