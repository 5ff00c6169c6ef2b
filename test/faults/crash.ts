/** Preloaded into the program by crash.test.ts: every sync of one family ends with an error that should not happen. */
import { Reconciler } from "../../src/app/reconciler.ts";

const times = Number(process.env["KP_TEST_CRASHES"] ?? 0);
let crashes = 0;
const sync = Reconciler.prototype.sync;
Reconciler.prototype.sync = async function (...args) {
  if (this.context.family.name === "IPv4" && crashes++ < times)
    throw new TypeError("Cannot read properties of undefined");
  return await sync.apply(this, args);
};
