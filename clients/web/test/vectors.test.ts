// Checks conformance/sealing.json by Node's cryptography alone, as another implementation would.
import { createCipheriv, createHash, createHmac, createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

const vectors = JSON.parse(readFileSync(new URL("../../../conformance/sealing.json", import.meta.url), "utf8"));

const SEGMENT_BYTES = 1024 * 1024;
const hex = (text: string) => Buffer.from(text, "hex");
const zero = Buffer.from([0]);

function padded(bytes: number): number {
  const size = Math.max(bytes, 256);
  const exponent = Math.floor(Math.log2(size));
  const step = 2 ** (exponent - Math.floor(Math.log2(exponent)) - 1);
  return Math.ceil(size / step) * step;
}

function seal(key: Buffer, plain: Buffer): Buffer {
  const file = Buffer.concat([plain, Buffer.alloc(padded(plain.length) - plain.length)]);
  const segments = Math.ceil(file.length / SEGMENT_BYTES);
  const sealed: Buffer[] = [];
  for (let segment = 0; segment < segments; segment++) {
    const nonce = Buffer.alloc(12);
    nonce.writeUInt32BE(segment, 7);
    nonce[11] = segment === segments - 1 ? 1 : 0;
    const cipher = createCipheriv("aes-256-gcm", key, nonce);
    sealed.push(cipher.update(file.subarray(segment * SEGMENT_BYTES, (segment + 1) * SEGMENT_BYTES)));
    cipher.final();
    sealed.push(cipher.getAuthTag());
  }
  return Buffer.concat(sealed);
}

function ed25519(raw: Buffer) {
  const der = Buffer.concat([hex("302a300506032b6570032100"), raw]);
  return createPublicKey({ key: der, format: "der", type: "spki" });
}

describe("the vectors of the encryption", () => {
  test("files have this length and these bytes", () => {
    for (const { bytes, sealed } of vectors.file_lengths) {
      expect(padded(bytes) + 16 * Math.ceil(padded(bytes) / SEGMENT_BYTES), `${bytes}`).toBe(sealed);
    }
    for (const vector of vectors.files) {
      const plain = Buffer.from(Array.from({ length: vector.bytes }, (_, place) => place % 251));
      const sealed = seal(hex(vector.key), plain);
      expect(sealed.length).toBe(vector.sealed_bytes);
      expect(createHash("sha256").update(sealed).digest("hex")).toBe(vector.sha256);
      if (vector.sealed) expect(sealed.toString("base64")).toBe(vector.sealed);
    }
  });

  test("a plaintext is one object with spaces behind it, and has this digest", () => {
    for (const { kind, body, fields, plain, franked, frank, frank_key } of vectors.envelopes) {
      for (const text of [plain, franked]) {
        expect(Buffer.from(text).length % 256).toBe(0);
        expect(text.trimEnd().endsWith("}")).toBe(true);
        expect(JSON.parse(text)).toMatchObject({ v: 1, kind, body, after: 41, ...fields });
      }
      expect(JSON.parse(franked).frank).toBe(hex(frank_key).toString("base64"));
      const mac = createHmac("sha256", hex(frank_key)).update("pigeonhole frank 1\0").update(franked);
      expect(mac.digest("hex")).toBe(frank);
    }
  });

  test("a safety number is that of both users in order", () => {
    for (const { users, keys, bytes, number } of vectors.safety_numbers) {
      const both: [string, string][] = users.map((user: string, place: number) => [user, keys[place]]);
      both.sort(([one], [other]) => Buffer.compare(Buffer.from(one), Buffer.from(other)));
      const digest = createHash("sha512").update("pigeonhole safety 1");
      for (const [user, key] of both) digest.update(zero).update(user).update(zero).update(hex(key));
      const computed = digest.digest();
      expect(computed.toString("hex")).toBe(bytes);
      const groups = Array.from({ length: 12 }, (_, place) => computed.readUIntBE(place * 5, 5) % 100_000);
      expect(groups.map((group) => `${group}`.padStart(5, "0")).join(" ")).toBe(number);
    }
  });

  test("an identity signed each device", () => {
    for (const { credential, user, device, identity_key, leaf_key } of vectors.credentials) {
      const { sig, ...told } = JSON.parse(credential);
      expect(told).toEqual({ v: 1, user, device, key: hex(identity_key).toString("base64") });
      const signed = Buffer.concat([Buffer.from(`pigeonhole device 1\0${user}\0${device}\0`), hex(leaf_key)]);
      expect(verify(null, signed, ed25519(hex(identity_key)), Buffer.from(sig, "base64"))).toBe(true);
    }
  });

  test("authenticated data and group ids name the conversation", () => {
    for (const { conversation_id, client_msg_id, mark, data } of vectors.authenticated_data) {
      expect(data).toBe(Buffer.from(`${conversation_id}\0${client_msg_id}\0`).toString("hex") + mark);
    }
    for (const { conversation_id, epoch_before, group_id } of vectors.group_ids) {
      expect(group_id).toBe(`${conversation_id}/${epoch_before}`);
    }
  });
});
