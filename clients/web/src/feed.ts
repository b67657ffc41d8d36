// The feed of events, for bots and servers. An app with an interface uses `open`.

export { Client, connect, Events } from "./client.ts";
export * from "./index.ts";
export { type Readers, type Tick, Timeline, type TimelineEntry, type Unsent } from "./timeline.ts";
