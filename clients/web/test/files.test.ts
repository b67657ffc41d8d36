// The bytes of files in encrypted conversations, against the vectors that all clients share.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { openFile, sealedBytes, sealedPart, sealFile } from "../src/files.ts";

interface Vectors {
  file_lengths: { bytes: number; sealed: number }[];
  files: { key: string; bytes: number; sha256: string; sealed_bytes: number }[];
}

const vectors: Vectors = JSON.parse(
  readFileSync(new URL("../../../conformance/sealing.json", import.meta.url), "utf8"),
);
const fileOf = (bytes: number) => new Blob([Uint8Array.from({ length: bytes }, (_, place) => place % 251)]);
const bytesOf = async (blob: Blob) => Buffer.from(await blob.arrayBuffer());

it("files have the lengths and the bytes of the vectors, whole and in parts", async () => {
  for (const { bytes, sealed } of vectors.file_lengths) {
    expect(sealedBytes(bytes), `${bytes}`).toBe(sealed);
  }
  for (const { key, bytes, sha256, sealed_bytes } of vectors.files) {
    const [file, base64] = [fileOf(bytes), Buffer.from(key, "hex").toString("base64")];
    const whole = await bytesOf(await sealedPart(file, base64, 0, sealed_bytes));
    expect(createHash("sha256").update(whole).digest("hex")).toBe(sha256);
    const half = Math.floor(sealed_bytes / 2);
    const parts = [sealedPart(file, base64, 0, half), sealedPart(file, base64, half, sealed_bytes - half)];
    const joined = Buffer.concat(await Promise.all(parts.map(async (part) => bytesOf(await part))));
    expect(joined.equals(whole)).toBe(true);
  }
});

it("opens what was sealed, and refuses other bytes", async () => {
  for (const bytes of [1, 256, 1024 * 1024, 2 * 1024 * 1024 + 5]) {
    const file = fileOf(bytes);
    const { key, sha256 } = await sealFile(file);
    const sealed = await sealedPart(file, key, 0, sealedBytes(bytes));
    const media = { media_id: "m_1", mime: "image/png", bytes, sha256, key };
    const asked: unknown[] = [];
    const open = (come: Blob) =>
      openFile({ kind: "image", media }, async (message) => {
        asked.push(message);
        return come;
      });
    const came = await open(sealed);
    expect(came.type).toBe("image/png");
    expect((await bytesOf(came)).equals(await bytesOf(file))).toBe(true);
    const announced = { media_id: "m_1", mime: "image/png", bytes: sealed.size, sha256 };
    expect(asked).toEqual([{ kind: "file", media: announced }]);
    const changed = await bytesOf(sealed);
    changed[0] = (changed[0] ?? 0) ^ 1;
    await expect(open(new Blob([changed]))).rejects.toMatchObject({ code: "file" });
    await expect(open(sealed.slice(0, -1))).rejects.toMatchObject({ code: "file" });
  }
});

it("a file without a key is downloaded as it is", async () => {
  const media = { media_id: "m_1", mime: "image/png", bytes: 1, sha256: "" };
  const plain = new Blob(["x"]);
  expect(await openFile({ kind: "image", media }, async () => plain)).toBe(plain);
});
