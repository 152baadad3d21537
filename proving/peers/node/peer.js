// The npm package v9u-smb2 as a client: PORT SHARE USER PASSWORD (see ../run.py). It speaks SMB 2.0.2.
"use strict";

const crypto = require("crypto");
const { promisify } = require("util");
const SMB2 = require("v9u-smb2");

const [port, share, user, password] = process.argv.slice(2);
const BASE = "node-smb2";
// Nothing, one byte, around the credit boundaries, and more than one request holds.
const SIZES = [0, 1, 65535, 65537, (1 << 20) + 3];
let failures = 0;

function content(size) {
  return Buffer.alloc(size, crypto.createHash("sha256").update(String(size)).digest());
}

function same(found, wanted, what) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) {
    throw new Error(`${what}: wanted ${JSON.stringify(wanted)}, found ${JSON.stringify(found)}`);
  }
}

async function run(name, body) {
  try {
    await body();
    console.log(`PASS ${name}`);
  } catch (why) {
    failures += 1;
    console.log(`FAIL ${name}: ${String(why.stack || why).replace(/\s+/g, " ").slice(0, 400)}`);
  }
}

async function main() {
  const client = new SMB2({
    share: `\\\\127.0.0.1\\${share}`, domain: "", username: user, password, port: Number(port), autoCloseTimeout: 0,
  });
  const call = (name) => promisify(client[name]).bind(client);
  const [mkdir, rmdir, readdir, readFile, writeFile, rename, unlink, exists] =
    ["mkdir", "rmdir", "readdir", "readFile", "writeFile", "rename", "unlink", "exists"].map(call);
  await run("make a directory", () => mkdir(BASE));
  for (const size of SIZES) {
    await run(`${size} bytes there and back`, async () => {
      await writeFile(`${BASE}\\size-${size}`, content(size));
      same((await readFile(`${BASE}\\size-${size}`)).equals(content(size)), true, "content");
    });
  }
  await run("list", async () => {
    same((await readdir(BASE)).sort(), SIZES.map((size) => `size-${size}`).sort(), "names");
  });
  await run("rename", async () => {
    await rename(`${BASE}\\size-1`, "r");
    await rename("r", `${BASE}\\renamed`);
    same(await exists(`${BASE}\\renamed`), true, "whether the new name is there");
    same(await exists(`${BASE}\\size-1`), false, "whether the old name is there");
  });
  await run("a missing file", async () => {
    const why = await readFile(`${BASE}\\nothing`).then(() => null, (reason) => reason);
    same(why && why.code, "STATUS_OBJECT_NAME_NOT_FOUND", "status");
  });
  await run("remove a tree", async () => {
    for (const name of await readdir(BASE)) await unlink(`${BASE}\\${name}`);
    await rmdir(BASE);
    // The package never closes what it has listed, so the directory goes with the connection.
    const why = await exists(BASE).then(() => null, (reason) => reason);
    same(why && why.code, "STATUS_DELETE_PENDING", "status of the directory that goes");
  });
  process.exit(failures === 0 ? 0 : 1);
}

main();
