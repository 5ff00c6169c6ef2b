/** Lines of `ip -batch` for the addresses of one device, and the output of `ip -o addr show`. */

export interface AddressLine {
  readonly verb: "replace" | "del";
  /** A canonical address, always with its full prefix length. */
  readonly ip: string;
  readonly device: string;
}

/** One line with its newline. `replace` of an address that is there is no error, `del` of an absent one is. */
export function printAddressLine(line: AddressLine): string {
  return `addr ${line.verb} ${line.ip}/${line.ip.includes(":") ? 128 : 32} dev ${line.device}\n`;
}

/** The reverse of `printAddressLine`; undefined for anything else. */
export function parseAddressLine(text: string): AddressLine | undefined {
  const match = /^addr (replace|del) ([0-9a-fA-F:.]+)\/(\d+) dev (\S+)\s*$/.exec(text);
  const [, verb, ip = "", bits, device = ""] = match ?? [];
  if (verb !== "replace" && verb !== "del") return undefined;
  return Number(bits) === (ip.includes(":") ? 128 : 32) ? { verb, ip, device } : undefined;
}

/** Addresses from `ip -o addr show`, without prefix; link-local IPv6 ones are the kernel's own and left out. */
export function parseAddresses(output: string): readonly string[] {
  const addresses: string[] = [];
  for (const line of output.split("\n")) {
    const match = /^\d+: \S+\s+inet6? ([0-9a-fA-F:.]+)(?:\/\d+)?\s/.exec(line);
    const ip = match?.[1];
    if (ip !== undefined && !/^fe[89ab][0-9a-f]:/i.test(ip)) addresses.push(ip);
  }
  return addresses;
}
