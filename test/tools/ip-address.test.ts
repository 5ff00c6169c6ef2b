import { expect, test } from "bun:test";
import { parseAddresses, parseAddressLine, printAddressLine } from "../../src/tools/ip-address.ts";

test("batch lines read back as printed", () => {
  for (const line of [
    { verb: "replace", ip: "10.96.0.1", device: "kube-ipvs0" },
    { verb: "del", ip: "fd00:10:96::1", device: "kube-ipvs0" },
  ] as const) {
    expect(parseAddressLine(printAddressLine(line))).toEqual(line);
  }
  expect(printAddressLine({ verb: "replace", ip: "fd00::1", device: "kube-ipvs0" })).toBe(
    "addr replace fd00::1/128 dev kube-ipvs0\n",
  );
  expect(parseAddressLine("addr del 10.0.0.1/24 dev eth0")).toBeUndefined();
  expect(parseAddressLine("link del kube-ipvs0")).toBeUndefined();
});

test("addresses of a device, without those the kernel gave it", () => {
  const output = `2: kube-ipvs0    inet 10.0.0.1/32 scope global kube-ipvs0\\       valid_lft forever preferred_lft forever
2: kube-ipvs0    inet6 fd00::1/128 scope global \\       valid_lft forever preferred_lft forever
2: kube-ipvs0    inet6 fe80::4831:59ff:fe17:327c/64 scope link \\       valid_lft forever preferred_lft forever
`;
  expect(parseAddresses(output)).toEqual(["10.0.0.1", "fd00::1"]);
  expect(parseAddresses("")).toEqual([]);
});
