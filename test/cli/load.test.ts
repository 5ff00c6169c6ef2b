/** What a command line and a file give together: precedence, completion, warnings, options. */
import { describe, expect, test } from "bun:test";
import { flags } from "../../src/cli/flags.ts";
import { type Loaded, load } from "../../src/cli/load.ts";
import { ConfigError } from "../../src/config/config-error.ts";

const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

type Running = Extract<Loaded, { kind: "run" | "cleanup" }>;

async function running(argv: readonly string[], file = head): Promise<Running> {
  const loaded = await load(argv, () => file);
  if (loaded.kind !== "run" && loaded.kind !== "cleanup") throw new Error(`unexpected ${loaded.kind}`);
  return loaded;
}

async function faults(argv: readonly string[], file = head): Promise<readonly string[]> {
  try {
    await load(argv, () => file);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.lines();
    throw error;
  }
}

describe("file and flags", () => {
  test("the file wins, and says over which flags", async () => {
    const argv = ["--config=c.yaml", "--proxy-mode=ipvs", "--healthz-port=1", "--master=https://a", "-v=3"];
    const { config, options, warnings } = await running(argv, `${head}mode: nftables\n`);
    expect(config.mode).toBe("nftables");
    expect(config.logging.verbosity).toBe(3);
    expect(options.master).toBe("https://a");
    expect(warnings.map(({ message }) => message)).toContain(
      "c.yaml wins over flags: ignoring --proxy-mode, --healthz-port; set them in the file instead",
    );
  });

  test("host name, format and vmodule win over the file", async () => {
    const argv = ["--config=c.yaml", "--hostname-override= Node-B ", "--vmodule=kube*=4", "--logging-format=text"];
    const file = `${head}hostnameOverride: a\nlogging: {format: json, verbosity: 2}\n`;
    const { config } = await running(argv, file);
    expect(config.hostnameOverride).toBe("node-b");
    expect(config.logging.format).toBe("text");
    expect(config.logging.verbosity).toBe(2);
    expect(config.logging.vmodule).toEqual([{ filePattern: "kube*", verbosity: 4 }]);
  });

  test("what was read and given is in the options", async () => {
    const argv = ["--config=c.yaml", "--machine-id-file=/a,/b", "--manifests=x,y", "--manifests", "z", "--init-only"];
    const { options } = await running(argv);
    expect(options.configFile).toBe("c.yaml");
    expect(options.configText).toBe(head);
    expect(options.machineIdFiles).toEqual(["/a", "/b"]);
    expect(options.bootIdFiles).toEqual(["/proc/sys/kernel/random/boot_id"]);
    expect(options.manifests).toEqual(["x", "y", "z"]);
    expect(options.initOnly).toBe(true);
    expect(options.modeSet).toBe(false);
    expect((await running(["--proxy-mode=iptables"])).options.modeSet).toBe(true);
  });
});

describe("servers named by flags", () => {
  test.each([
    [[], "0.0.0.0:10256", "127.0.0.1:10249"],
    [["--healthz-bind-address=1.2.3.4", "--metrics-bind-address=::"], "1.2.3.4:10256", "[::]:10249"],
    [["--healthz-bind-address=1.2.3.4:5", "--metrics-bind-address=[::1]:6"], "1.2.3.4:5", "[::1]:6"],
    [["--healthz-port=7", "--metrics-port=8"], "0.0.0.0:7", "127.0.0.1:8"],
    [["--healthz-port=0", "--metrics-port=0", "--metrics-bind-address=1.2.3.4:5"], "", ""],
    [["--healthz-bind-address=", "--metrics-bind-address="], "", ""],
  ] as const)("%j", async (argv, healthz, metrics) => {
    const { config } = await running(argv);
    expect([config.healthzBindAddress, config.metricsBindAddress]).toEqual([healthz, metrics]);
  });
});

describe("nftables mode takes the iptables flags that have no other", () => {
  test("periods and masquerading", async () => {
    const argv = [
      "--proxy-mode=nftables",
      "--iptables-sync-period=9s",
      "--iptables-min-sync-period=2s",
      "--masquerade-all",
    ];
    const { config } = await running(argv);
    expect(config.nftables).toEqual({ masqueradeBit: 14, masqueradeAll: true, syncPeriod: 9000, minSyncPeriod: 2000 });
    expect(config.iptables.masqueradeAll).toBe(false);
  });
});

describe("other ends", () => {
  test("help wins over everything", async () => {
    expect(await load(["--nope", "-h"])).toEqual({ kind: "help" });
  });

  test("version", async () => {
    expect(await load(["--version"])).toEqual({ kind: "version", raw: false });
    expect(await load(["--version=raw"])).toEqual({ kind: "version", raw: true });
    expect((await running(["--version=false"])).kind).toBe("run");
  });

  test("cleanup needs no kubeconfig", async () => {
    expect((await running(["--cleanup"])).kind).toBe("cleanup");
  });

  test("what is written reads back as the same", async () => {
    const first = await load(["--proxy-mode=ipvs", "--bind-address=::", "--vmodule=a=1", "--write-config-to=o"]);
    if (first.kind !== "write-config") throw new Error(first.kind);
    const second = await load(["--config=o", "--write-config-to=p"], () => first.text);
    if (second.kind !== "write-config") throw new Error(second.kind);
    expect(second.text).toBe(first.text);
    expect(second.config).toEqual(first.config);
  });
});

describe("mistakes", () => {
  test.each([
    [["start"], ["start: is no flag and no command; see --help"]],
    [
      ["--cleanup", "true"],
      ["true: is no flag and no command; see --help (a switch takes its value with =, as in --flag=true)"],
    ],
    [["--hostname-override= "], ['--hostname-override: " ": must not be blank']],
    [["--oom-score-adj=5000"], ["--oom-score-adj: oomScoreAdj: 5000: must be -1000 to 1000"]],
    [
      ["--proxy-mode=userspace"],
      [
        '--proxy-mode: mode: "userspace": must be one of iptables, ipvs, nftables (the userspace mode was removed in Kubernetes 1.26)',
      ],
    ],
    [
      ["--proxy-mode=ipvs", "--feature-gates=KubeProxyIPVS=false"],
      [
        '--proxy-mode: mode: "ipvs": is switched off by the feature gate KubeProxyIPVS (set the gate to true, or use nftables)',
      ],
    ],
    [
      ["--feature-gates=NFTablesProxyMode=false"],
      ["--feature-gates: featureGates.NFTablesProxyMode: false: is locked to true in Kubernetes 1.37"],
    ],
    [
      ["--log-json-split-stream"],
      [
        "--log-json-split-stream: logging.options.json.splitStream: true: is an alpha option: it needs the feature gate LoggingAlphaOptions",
      ],
    ],
    [["--logging-format=json", "--vmodule=a=1"], ["--vmodule: logging.vmodule: works with logging.format text only"]],
  ] as const)("%j", async (argv, expected) => {
    expect(await faults(argv)).toEqual(expected);
  });

  test("an unreadable file says why", async () => {
    expect(await load(["--config=/nonexistent/x"]).catch((error: ConfigError) => error.lines())).toEqual([
      '--config: "/nonexistent/x": there is no such file',
    ]);
    expect(await load(["--config=/"]).catch((error: ConfigError) => error.lines())).toEqual([
      '--config: "/": this is a folder; name the file in it',
    ]);
  });

  test("places in the file, all at once", async () => {
    const file = `${head}iptables:\n  masqueradeBit: 99\nnodePortAddresses:\n- primary\n- 10.0.0.1\nclusterCIDR: 10.0.0.0\n`;
    expect(await faults(["--config=c.yaml"], file)).toEqual([
      "c.yaml:4:18: iptables.masqueradeBit: 99: must be 0 to 31",
      'c.yaml:8:14: clusterCIDR[0]: "10.0.0.0": must be a CIDR such as 10.244.0.0/16 or fd00:10:244::/56',
      'c.yaml:7:3: nodePortAddresses[1]: "10.0.0.1": must be primary, localhost, all or a CIDR (for one address write 10.0.0.1/32)',
    ]);
  });
});

test("/flagz values", async () => {
  const argv = [
    "--feature-gates=WatchListClient=false,AllBeta=true",
    "--nodeport-addresses=primary,10.0.0.0/8",
    "-v=2",
  ];
  const { options } = await running([...argv, "--vmodule=a=1,b=2", "--ipvs-udp-timeout=90s"]);
  expect(options.flagValues.get("feature-gates")).toBe("AllBeta=true,WatchListClient=false");
  expect(options.flagValues.get("nodeport-addresses")).toBe("[primary,10.0.0.0/8]");
  expect(options.flagValues.get("ipvs-exclude-cidrs")).toBe("[]");
  expect(options.flagValues.get("vmodule")).toBe("a=1,b=2");
  expect(options.flagValues.get("ipvs-udp-timeout")).toBe("1m30s");
  expect(options.flagValues.get("ipvs-tcp-timeout")).toBe("0s");
  expect(options.flagValues.get("v")).toBe("2");
  expect([...options.flagValues.keys()]).toEqual(
    flags
      .map(({ name }) => name)
      .filter((name) => name !== "manifests")
      .sort(),
  );
});
