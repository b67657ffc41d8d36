export * from "./admin.ts";
export type { Answer, Call, LambdaClient, Problem, Transport } from "./calls.ts";
export { byLambda, overHttp, RefusedError } from "./calls.ts";
export * from "./events.ts";
export * from "./queue.ts";
export * from "./service.ts";
export * from "./types.ts";
