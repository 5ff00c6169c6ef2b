/** Completion in the shells themselves: what each offers after the same beginnings. */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { folder, kubeProxy, sh } from "./program.ts";

setDefaultTimeout(60_000);
const scripts = folder({});
const shells = ["bash", "zsh", "fish"];
const absent = shells.filter((shell) => Bun.which(shell) === null);
if (absent.length > 0) console.warn(`completion: not installed, its tests are skipped: ${absent.join(", ")}`);

beforeAll(async () => {
  for (const shell of shells) writeFileSync(`${scripts}/${shell}`, (await kubeProxy("completion", shell)).out);
  writeFileSync(
    `${scripts}/pty`,
    `zmodload zsh/zpty
zpty z 'PS1="% " TERM=dumb zsh -f -i'
zpty -w z 'autoload -U compinit; compinit -D -u; source ${scripts}/zsh; unsetopt beep; echo rea""dy'
zpty -r z out '*ready*'
zpty -w -n z "$1"$'\\t'
zpty -r -m z out "$2"
print -r -- "$out"
zpty -d z
`,
  );
});

/** What bash would offer for the last word. */
async function bash(...words: readonly string[]): Promise<readonly string[]> {
  const script = `source ${scripts}/bash; COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _kube_proxy; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { out, err } = await sh(["bash", "--norc", "-c", script, "bash", "kube-proxy", ...words]);
  expect(err).toBe("");
  return out.split("\n").filter((line) => line !== "");
}

async function fish(line: string): Promise<readonly string[]> {
  const { out, err } = await sh(["fish", "--no-config", "-c", `source ${scripts}/fish; complete -C "${line}"`]);
  expect(err).toBe("");
  return out.split("\n").flatMap((row) => (row === "" ? [] : [row.split("\t")[0] ?? ""]));
}

/** Whether pressing Tab after the text makes the line `completed`. */
async function zsh(text: string, completed: string): Promise<boolean> {
  const { out } = await sh(["timeout", "20", "zsh", "-f", `${scripts}/pty`, text, `*${completed}*`]);
  return out.includes(completed);
}

test.skipIf(absent.includes("bash"))("bash: commands first, then flags of the command, values, files", async () => {
  expect(await bash("re")).toEqual(["render"]);
  expect(await bash("")).toEqual(
    expect.arrayContaining(["render", "diff", "doctor", "status", "explain", "completion", "man", "--config"]),
  );
  expect(await bash("--config", "x", "ren")).toEqual([]);
  expect(await bash("status", "--wa")).toEqual(["--watch"]);
  expect(await bash("render", "--wa")).toEqual([]);
  expect(await bash("diff", "--mode", "n")).toEqual(["nftables"]);
  expect(await bash("--proxy-mode", "=", "ip")).toEqual(["iptables", "ipvs"]);
  expect(await bash("doctor", "-o", "")).toEqual(["text", "json"]);
  expect(await bash("completion", "")).toEqual(["bash", "zsh", "fish", "--help"]);
  expect(await bash("--config", `${scripts}/ba`)).toEqual([`${scripts}/bash`]);
  expect(await bash("--node-name", "")).not.toContain("render");
});

test.skipIf(absent.includes("fish"))("fish: the same", async () => {
  expect(await fish("kube-proxy re")).toEqual(["render"]);
  expect(await fish("kube-proxy status --wa")).toEqual(["--watch"]);
  expect(await fish("kube-proxy render --wa")).toEqual([]);
  expect(await fish("kube-proxy diff --mode n")).toEqual(["nftables"]);
  expect(await fish("kube-proxy --proxy-mode=n")).toEqual(["--proxy-mode=nftables"]);
  expect([...(await fish("kube-proxy completion "))].sort()).toEqual(["bash", "fish", "zsh"]);
  expect(await fish(`kube-proxy --config ${scripts}/ba`)).toEqual([`${scripts}/bash`]);
});

test.skipIf(absent.includes("zsh"))("zsh: the same, at a terminal", async () => {
  expect((await sh(["zsh", "-n", `${scripts}/zsh`])).err).toBe("");
  expect(await zsh("kube-proxy ren", "kube-proxy render ")).toBe(true);
  expect(await zsh("kube-proxy status --wat", "--watch ")).toBe(true);
  expect(await zsh("kube-proxy diff --mode=nf", "--mode=nftables ")).toBe(true);
  expect(await zsh("kube-proxy --proxy-mode=nf", "--proxy-mode=nftables ")).toBe(true);
  expect(await zsh("kube-proxy completion fi", "completion fish ")).toBe(true);
});

test("no such shell: one line, exit 1", async () => {
  expect(await kubeProxy("completion", "tcsh")).toMatchObject({
    code: 1,
    err: 'kube-proxy completion: SHELL: "tcsh": must be one of bash, zsh, fish\n',
  });
  expect((await kubeProxy("completion")).err).toContain("is missing: name one of bash, zsh, fish");
});
