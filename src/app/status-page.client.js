// The status page's own script. Everything from the API is hostile: it is only ever set as text, never as markup.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const everyMs = 5000;
  let services = { q: "", offset: 0, matching: 0 };
  const open = new Set();
  /** When the families were last synced. */
  let synced = "";

  /** An element with attributes and children; strings become text. */
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  async function read(path) {
    const response = await fetch(path, { headers: { Accept: "application/json" }, cache: "no-store" });
    const body = await response.json();
    if (!response.ok && body.error === undefined) throw new Error(`status ${response.status}`);
    return body;
  }

  function ago(moment, now) {
    if (moment === null || moment === undefined) return "never";
    const s = Math.max(0, Math.round((now - moment) / 1000));
    if (s < 90) return `${s} s ago`;
    if (s < 5400) return `${Math.round(s / 60)} min ago`;
    return s < 129600 ? `${Math.round(s / 3600)} h ago` : `${Math.round(s / 86400)} days ago`;
  }

  const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
  const milliseconds = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

  // --- facts

  function showStatus(status) {
    byId("lost").hidden = true;
    document.title = `kube-proxy · ${status.nodeName}`;
    byId("node").textContent = status.nodeName;
    byId("subtitle").textContent = `${status.mode} mode · ${status.version} · started ${ago(status.startedAt, status.now)}`;
    const health = byId("health");
    health.textContent = status.healthy ? "Healthy" : "Not healthy";
    health.className = `badge ${status.healthy ? "good" : "bad"}`;
    byId("facts").replaceChildren(...factsOf(status).map(([label, value, more]) =>
      make("div", {}, make("dt", {}, label), make("dd", {}, value, ...(more ? [make("small", {}, more)] : [])))));
    const remarks = remarksOf(status);
    byId("remarks").hidden = remarks.length === 0;
    byId("remark-list").replaceChildren(...remarks.slice(0, 30).map((text) => make("li", {}, text)));
  }

  function factsOf(s) {
    const facts = s.families.map((f) => {
      const last = f.lastSync;
      const took = last === null ? "" : `${last.full ? "full" : "partial"}, took ${milliseconds(last.finishedAt - last.startedAt)}`;
      return [`${f.family} last sync`, ago(f.lastSynced, s.now), took];
    });
    for (const f of s.families)
      facts.push([`${f.family} rules for`, plural(f.services, "Service"), `${plural(f.ports, "port")}, ${plural(f.endpoints, "endpoint")}`]);
    facts.push(["Pending changes", String(s.pending.services + s.pending.endpoints), `${plural(s.pending.services, "Service")}, ${plural(s.pending.endpoints, "slice")}`]);
    facts.push(["Objects from", s.source || "not known yet", s.lastContact === null ? "" : `last answer ${ago(s.lastContact, s.now)}`]);
    facts.push(["Drift repaired", String(s.driftRepairs), s.repairs.length > 0 ? `last ${ago(s.repairs.at(-1).at, s.now)}` : ""]);
    return facts;
  }

  function remarksOf(s) {
    const out = [...s.warnings];
    if (s.nodeKnown === false) out.push("There is no such Node: Local traffic policies and health checks are off.");
    for (const f of s.families) {
      if (f.lastSync !== null && f.lastSync.error !== null) out.push(`${f.family}: the last sync failed: ${f.lastSync.error}`);
      if (f.dueSince !== null && s.now - f.dueSince > 30000) out.push(`${f.family}: a change waits since ${ago(f.dueSince, s.now)}.`);
      for (const q of f.quarantined) out.push(`${f.family}: ${q.service} is left out: ${q.reason}`);
      for (const line of f.conflicts) out.push(`${f.family}: ${line}`);
    }
    for (const r of s.repairs.slice(-3)) out.push(`${ago(r.at, s.now)}, ${r.family}: ${r.what} was repaired${r.by ? `, changed by ${r.by}` : ""}`);
    return out;
  }

  // --- curves

  const svgSpace = "http://www.w3.org/2000/svg";
  function svg(tag, attributes, ...children) {
    const element = document.createElementNS(svgSpace, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    element.append(...children);
    return element;
  }

  function frame(label, ...children) {
    const base = svg("line", { class: "base", x1: 0, y1: 100, x2: 300, y2: 100 });
    const title = svg("title", {});
    title.textContent = label;
    return svg("svg", { viewBox: "0 0 300 100", preserveAspectRatio: "none", role: "img", "aria-label": label }, title, base, ...children);
  }

  function showHistory({ syncs, changes }) {
    const families = [...new Set(syncs.map((s) => s.family))].sort();
    const most = Math.max(1, ...syncs.map((s) => s.ms));
    const lines = families.map((family, i) => {
      const own = syncs.filter((s) => s.family === family);
      const x = (n) => (own.length === 1 ? 300 : (n * 300) / (own.length - 1));
      const points = own.map((s, n) => `${x(n).toFixed(1)},${(100 - (s.ms / most) * 95).toFixed(1)}`);
      if (own.length === 1) points.unshift(points[0].replace("300.0", "0"));
      return svg("polyline", { class: i === 0 ? "line" : "line second", points: points.join(" ") });
    });
    const last = families.map((family) => syncs.filter((s) => s.family === family).at(-1));
    const failed = syncs.filter((s) => !s.ok).length;
    byId("sync-chart").replaceChildren(frame(`Time of the last ${syncs.length} syncs, ${milliseconds(most)} at most, ${failed} failed`, ...lines));
    legend("sync-legend", last.map((s) => [`${s.family} ${milliseconds(s.ms)}`]), `max ${milliseconds(most)}${failed > 0 ? `, ${failed} failed` : ""}`);
    const high = Math.max(1, ...changes.map((c) => c.services + c.endpoints));
    const width = 300 / changes.length;
    const bars = changes.flatMap((c, n) => {
      const [s, e] = [(c.services / high) * 95, (c.endpoints / high) * 95];
      const bar = (kind, y, height) => svg("rect", { class: kind, x: (n * width).toFixed(2), y: y.toFixed(2), width: (width * 0.8).toFixed(2), height: height.toFixed(2) });
      return [...(s > 0 ? [bar("bar", 100 - s, s)] : []), ...(e > 0 ? [bar("bar second", 100 - s - e, e)] : [])];
    });
    const total = changes.reduce((n, c) => n + c.services + c.endpoints, 0);
    byId("change-chart").replaceChildren(frame(`${total} changes in the last 15 minutes, ${high} in ten seconds at most`, ...bars));
    legend("change-legend", [["Services"], ["slices"]], `last 15 min: ${total.toLocaleString("en")}`);
  }

  function legend(id, entries, end) {
    const keys = entries.flatMap(([text], i) => [make("span", { class: i === 0 ? "key" : "key second", "aria-hidden": "true" }), text]);
    byId(id).replaceChildren(...keys, `  ${keys.length > 0 ? "· " : ""}${end}`);
  }

  // --- explain

  function fateLine(fate) {
    const shares = fate.shares ?? [];
    if (fate.kind === "drop") return ["bad", "Dropped: the sender gets no answer."];
    if (fate.kind === "reject") return ["bad", "Rejected: the sender is told at once that the port is unreachable."];
    if (fate.kind === "pass") return ["warn", fate.to === "host" ? "Not ours: delivered to the node's own sockets, if one listens there." : "Not ours: follows the routing table unchanged."];
    if (shares.every((s) => s.repliesLost)) return ["bad", "Sent on, but replies do not come back here."];
    const where = shares.length === 1 ? "this endpoint" : `one of these ${shares.length} endpoints`;
    return ["good", fate.kind === "proxied" ? `Served by the proxy itself, which connects to ${where}:` : `Sent to ${where}:`];
  }

  function showVerdict(answer) {
    const box = byId("verdict");
    if (answer.error !== undefined) return box.replaceChildren(make("p", { class: "fate bad" }, answer.error));
    const { verdict } = answer;
    const [kind, text] = fateLine(verdict.fate);
    const at = (ip, port) => (ip.includes(":") ? `[${ip}]:${port}` : `${ip}:${port}`);
    const shares = (verdict.fate.shares ?? []).slice(0, 20).map((s) =>
      make("li", {}, make("span", { class: "mono" }, `${(s.probability * 100).toFixed(1)}% ${at(s.ip, s.port)}`),
        make("span", { class: "soft" }, ` ${s.local ? "this node" : "another node"}, sees the ${s.masqueraded ? "node's" : "sender's"} address${s.repliesLost ? ", replies lost" : ""}`)));
    const { from, to } = verdict.packet;
    box.replaceChildren(
      make("p", { class: "soft" }, `${from.ip} (${from.kind === "external" ? "outside" : from.kind}) → ${at(to.ip, to.port)}/${to.protocol}${verdict.service ? `, Service ${verdict.service}` : ""}`),
      make("p", { class: `fate ${kind}` }, text),
      make("ul", { class: "shares" }, ...shares),
      make("ol", { class: "steps" }, ...verdict.steps.map((step) =>
        make("li", {}, step.text, make("ul", { class: "objects" }, ...step.objects.map((o) => make("li", {}, make("code", {}, o))))))),
    );
  }

  async function explain() {
    const query = new URLSearchParams({ from: byId("from").value.trim(), to: byId("to").value.trim() });
    try {
      showVerdict(await read(`/explain?${query}`));
    } catch {
      showVerdict({ error: "No answer from the proxy." });
    }
  }

  // --- Services

  function rowOf(row) {
    const toggle = make("button", { type: "button", class: "link", "aria-expanded": String(open.has(row.service)) }, row.service);
    const tag = row.trouble === "" ? [] : [make("span", { class: "tag" }, row.trouble)];
    const lines = (list) => list.map((text) => make("div", { class: "mono" }, text));
    const used = row.used === row.known ? String(row.used) : `${row.used} of ${row.known}`;
    const tr = make("tr", {}, make("td", {}, toggle, ...tag), make("td", {}, ...lines(row.addresses)),
      make("td", {}, ...lines(row.ports)), make("td", { class: "number" }, used));
    toggle.addEventListener("click", () => {
      const isOpen = open.has(row.service);
      toggle.setAttribute("aria-expanded", String(!isOpen));
      if (isOpen) {
        open.delete(row.service);
        if (tr.nextSibling?.classList.contains("details")) tr.nextSibling.remove();
      } else {
        open.add(row.service);
        void details(row.service, tr);
      }
    });
    if (open.has(row.service)) void details(row.service, tr);
    return tr;
  }

  async function details(name, tr) {
    const page = await read(`/service.json?${new URLSearchParams({ name })}`).catch(() => ({ error: "No answer from the proxy." }));
    if (!open.has(name) || tr.nextSibling?.classList.contains("details")) return;
    const cell = make("td", { colspan: "4" });
    tr.after(make("tr", { class: "details" }, cell));
    if (page.error !== undefined) return cell.append(page.error);
    const affinity = page.affinitySeconds > 0 ? `, session affinity ${page.affinitySeconds} s` : "";
    cell.append(make("p", { class: "soft" }, `Internal policy ${page.internalTrafficPolicy}, external policy ${page.externalTrafficPolicy}${affinity}`));
    for (const f of page.families) {
      if (f.sourceRanges.length > 0) cell.append(make("p", { class: "soft" }, `${f.family} source ranges: ${f.sourceRanges.join(", ")}`));
      if (f.healthCheck) cell.append(make("p", { class: "soft" }, `${f.family} health check on port ${f.healthCheck.port}: ${plural(f.healthCheck.localEndpoints, "ready endpoint")} here`));
      for (const line of f.conflicts) cell.append(make("p", { class: "fate bad" }, line));
      for (const port of f.ports) cell.append(...portDetails(f, port));
    }
  }

  function portDetails(family, port) {
    const to = `${family.clusterIP.includes(":") ? `[${family.clusterIP}]` : family.clusterIP}:${port.port}/${port.protocol}`;
    const go = make("button", { type: "button", class: "try" }, "explain");
    go.setAttribute("aria-label", `Explain a packet to ${to}`);
    go.addEventListener("click", () => {
      byId("to").value = to;
      byId("explain").scrollIntoView({ block: "start" });
      void explain();
    });
    const use = (e) => (e.leftOut !== "" ? `left out: ${e.leftOut}` : e.cluster && e.localList ? "all traffic" : e.cluster ? "cluster-wide traffic" : "Local policies");
    const list = port.endpoints.slice(0, 200).map((e) =>
      make("li", { class: e.leftOut === "" ? "" : "out" }, make("span", { class: "mono" }, e.address), ` ${e.local ? "here" : e.nodeName || "node unknown"} · ${use(e)}`));
    if (port.endpoints.length > 200) list.push(make("li", { class: "out" }, `and ${port.endpoints.length - 200} more`));
    if (list.length === 0) list.push(make("li", { class: "out" }, "no endpoints"));
    return [make("h3", {}, to, " ", make("span", { class: "soft" }, port.name), go), make("ul", {}, ...list)];
  }

  async function showServices(append) {
    const offset = append ? services.offset : 0;
    const q = byId("search").value.trim();
    const found = await read(`/services.json?${new URLSearchParams({ q, offset: String(offset) })}`);
    if (q !== byId("search").value.trim()) return;
    services = { q, offset: offset + found.rows.length, matching: found.matching };
    const rows = found.rows.map(rowOf);
    if (append) byId("rows").append(...rows);
    else byId("rows").replaceChildren(...rows);
    const shown = services.offset < found.matching ? `, the first ${services.offset.toLocaleString("en")} shown` : "";
    byId("count").textContent = q === "" ? `${plural(found.total, "Service")}${shown}` : `${found.matching.toLocaleString("en")} of ${plural(found.total, "Service")} match${shown}`;
    byId("more").hidden = services.offset >= found.matching;
  }

  // --- events

  let typing;
  byId("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => void showServices(false).catch(lost), 200);
  });
  byId("more").addEventListener("click", () => void showServices(true).catch(lost));
  byId("explain-form").addEventListener("submit", (event) => {
    event.preventDefault();
    void explain();
  });

  function lost() {
    byId("lost").hidden = false;
  }

  async function refresh() {
    if (document.hidden) return;
    try {
      const [status, history] = await Promise.all([read("/status.json"), read("/history.json")]);
      showStatus(status);
      showHistory(history);
      // Only a sync changes the table, and one that somebody reads is not moved under their eyes.
      const stamp = status.families.map((f) => f.lastSync?.finishedAt).join();
      if (stamp !== synced && open.size === 0 && services.offset <= 100) await showServices(false);
      synced = stamp;
    } catch {
      lost();
    }
  }

  setInterval(() => void refresh(), everyMs);
  document.addEventListener("visibilitychange", () => void refresh());
  const asked = new URLSearchParams(location.search);
  if (asked.has("q")) byId("search").value = asked.get("q");
  if (asked.has("from")) byId("from").value = asked.get("from");
  if (asked.has("to")) byId("to").value = asked.get("to");
  void showServices(false).catch(lost);
  void refresh();
  if (asked.has("to")) void explain();
})();
