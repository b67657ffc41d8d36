// A voice note, while it is recorded.

import type { MediaDraft } from "@pigeonhole/client";
import { barsOf, packed } from "./waveform.ts";

/** Formats that browsers record, the smallest first. */
const TYPES = ["audio/webm;codecs=opus", "audio/mp4", "audio/ogg;codecs=opus"];
/** The page uses a decoded note only to measure its loudness. */
const SAMPLES_PER_S = 8000;

export function canRecord(): boolean {
  return typeof MediaRecorder !== "undefined" && navigator.mediaDevices !== undefined;
}

export class Recording {
  #recorder: MediaRecorder;
  #chunks: Blob[] = [];

  /** Requests the microphone. */
  static async begin(): Promise<Recording> {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    try {
      return new Recording(stream);
    } catch (error) {
      switchOff(stream);
      throw error;
    }
  }

  private constructor(stream: MediaStream) {
    const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type));
    this.#recorder = new MediaRecorder(stream, mimeType === undefined ? {} : { mimeType });
    this.#recorder.addEventListener("dataavailable", ({ data }) => this.#chunks.push(data));
    this.#recorder.start();
  }

  /** The note. The microphone is off then. */
  async end(): Promise<MediaDraft> {
    const stopped = new Promise((stop) => this.#recorder.addEventListener("stop", stop, { once: true }));
    this.cancel();
    await stopped;
    const blob = new Blob(this.#chunks, { type: this.#recorder.mimeType });
    const decoded = await new OfflineAudioContext(1, 1, SAMPLES_PER_S).decodeAudioData(await blob.arrayBuffer());
    return {
      blob,
      kind: "voice",
      durationMs: Math.max(1, Math.round(decoded.duration * 1000)),
      waveform: packed(barsOf(decoded.getChannelData(0))),
    };
  }

  cancel(): void {
    this.#recorder.stop();
    switchOff(this.#recorder.stream);
  }
}

/** Else the browser shows that the page listens. */
function switchOff(microphone: MediaStream): void {
  for (const track of microphone.getTracks()) {
    track.stop();
  }
}
