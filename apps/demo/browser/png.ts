// A picture to send.

import { crc32, deflateSync } from "node:zlib";

/** Makes a picture of two colours that run into each other. `beside`: chunks before the picture itself. */
export function png(width: number, height: number, beside: [string, Buffer][] = []): Buffer {
  const rows = Buffer.alloc(height * (1 + width * 3));
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      rows.set([(x * 255) / width, 120, (y * 255) / height], y * (1 + width * 3) + 1 + x * 3);
    }
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2], 8);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([
    signature,
    chunk("IHDR", head),
    ...beside.map(([type, data]) => chunk(type, data)),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/** Makes an animated picture with a single frame and a place in its metadata. */
export function movingPng(width: number, height: number): Buffer {
  const [frames, shown] = [Buffer.alloc(8), Buffer.alloc(26)];
  frames.writeUInt32BE(1, 0);
  shown.writeUInt32BE(width, 4);
  shown.writeUInt32BE(height, 8);
  shown.writeUInt16BE(1, 20);
  shown.writeUInt16BE(10, 22);
  return png(width, height, [
    ["eXIf", Buffer.from("MM\0*\0\0\0\x08\0\0\0\0\0\0")],
    ["acTL", frames],
    ["fcTL", shown],
  ]);
}

function chunk(type: string, data: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const named = Buffer.concat([Buffer.from(type), data]);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, sum]);
}
