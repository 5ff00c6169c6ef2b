/** What the tests do with each command of the documents; a command without a row here fails. First match counts. */

export type Treatment =
  /** Executed as it stands, in a network namespace of the test's own; `dist/kube-proxy` is the binary under test. */
  | { readonly kind: "run"; readonly exit?: number }
  /** Executed, and left running until the end: the proxy itself. */
  | { readonly kind: "background" }
  /** Not executed, for the reason given: shell syntax, files and flags are checked. */
  | { readonly kind: "checked"; readonly why: string };

const run: Treatment = { kind: "run" };
const checked = (why: string): Treatment => ({ kind: "checked", why });

export const treatments: readonly (readonly [RegExp, Treatment])[] = [
  [/^npm ci /, checked("it would replace the node_modules that this test runs from")],
  [/^scripts\/test\b/, checked("it is what runs this test")],
  [/^scripts\/check$/, checked("it is the first step of scripts/test")],
  [/^scripts\/build$/, checked("it is a step of scripts/test, and other tests use what it built")],
  [/^KP_NETNS=1 unshare -n -m npx bun test\/soak\/run\.ts /, checked("it takes an hour; test/soak runs a short form")],
  [/^(KP_NETNS=1 unshare -n -m )?npx bun test test\//, checked("scripts/test runs these groups anyway")],
  [/^scripts\/demo$/, run],
  [
    /^scripts\/uml .* test\/uml\/cases\.ts /,
    checked("test/uml runs it with other cases; the guest takes half a minute"),
  ],
  [/^scripts\/uml /, run],
  [/^npx bun test\/bench\/run\.ts .*--services 1000 /, checked("it takes minutes; CONTRIBUTING.md's small one is run")],
  [/^npx bun test\/\S+\.ts/, run],
  [/^promtool /, run],
  [/^dist\/kube-proxy --manifests /, { kind: "background" }],
  [/^dist\/kube-proxy diff .* --masquerade-all$/, { kind: "run", exit: 1 }],
  [/^dist\/kube-proxy /, run],
  [/^scripts\/build --all$/, checked("test/release runs it")],
  [/^scripts\/install /, checked("test/install runs it over a copy of /etc")],
  [/^kube-proxy doctor --config \/etc\//, checked("it needs what scripts/install made; the same command is run above")],
  [/^podman build /, checked("it needs a registry")],
  [/^(kubectl|systemctl|journalctl) /, checked("it needs a cluster, or a machine with systemd")],
];

export function treatmentOf(command: string): Treatment | undefined {
  return treatments.find(([pattern]) => pattern.test(command))?.[1];
}
