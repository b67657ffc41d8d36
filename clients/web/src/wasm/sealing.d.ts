/* tslint:disable */
/* eslint-disable */

/**
 * One device of a user, with its private key.
 */
export class Device {
    free(): void;
    [Symbol.dispose](): void;
    /**
     * Begins a group with a device of another user, by a package of the device.
     */
    birth(peer: string, device: string, _package: Uint8Array | number[], client_msg_id: string, now_s: number): Pending;
    static fromBytes(bytes: Uint8Array | number[]): Device;
    /**
     * Joins by a Welcome of the peer, with a package of this device.
     */
    join(peer: string, epoch: number, welcome: Uint8Array | number[], tree: Uint8Array | number[], _package: Package): Group;
    newPackage(now_s: number): Package;
    constructor(user: string, device: string, identity: Uint8Array | number[], seed: Uint8Array | number[]);
    toBytes(): Uint8Array;
}

/**
 * A device's state of a group.
 */
export class Group {
    private constructor();
    free(): void;
    [Symbol.dispose](): void;
    static fromStored(state: Uint8Array | number[], tree: Uint8Array | number[]): Group;
    /**
     * Opens the peer's message to this user. The bytes of the outcome are the text.
     */
    open(me: string, peer: string, epoch: number, body: Uint8Array | number[]): Moved;
    /**
     * Seals a text for the direct conversation of these users.
     */
    seal(me: string, peer: string, client_msg_id: string, text: string): Moved;
    readonly state: Uint8Array;
    readonly tree: Uint8Array;
}

/**
 * A group after a message: the new state, and the sealed body or the opened envelope.
 */
export class Moved {
    private constructor();
    free(): void;
    [Symbol.dispose](): void;
    readonly bytes: Uint8Array;
    readonly group: Group;
}

/**
 * A key package of a device, with its private part.
 */
export class Package {
    private constructor();
    free(): void;
    [Symbol.dispose](): void;
    get data(): Uint8Array;
    set data(value: Uint8Array | number[]);
    get private(): Uint8Array;
    set private(value: Uint8Array | number[]);
    get reference(): Uint8Array;
    set reference(value: Uint8Array | number[]);
}

/**
 * A commit by this device that is not in the log yet.
 */
export class Pending {
    private constructor();
    free(): void;
    [Symbol.dispose](): void;
    /**
     * Returns the group after the commit is in the log.
     */
    readonly next: Group;
    readonly welcome: Uint8Array;
}

export type InitInput = RequestInfo | URL | Response | BufferSource | WebAssembly.Module;

export interface InitOutput {
    readonly memory: WebAssembly.Memory;
    readonly __wbg_device_free: (a: number, b: number) => void;
    readonly __wbg_get_package_data: (a: number) => [number, number];
    readonly __wbg_get_package_private: (a: number) => [number, number];
    readonly __wbg_get_package_reference: (a: number) => [number, number];
    readonly __wbg_group_free: (a: number, b: number) => void;
    readonly __wbg_moved_free: (a: number, b: number) => void;
    readonly __wbg_package_free: (a: number, b: number) => void;
    readonly __wbg_pending_free: (a: number, b: number) => void;
    readonly __wbg_set_package_data: (a: number, b: number, c: number) => void;
    readonly __wbg_set_package_private: (a: number, b: number, c: number) => void;
    readonly __wbg_set_package_reference: (a: number, b: number, c: number) => void;
    readonly device_birth: (a: number, b: number, c: number, d: number, e: number, f: number, g: number, h: number, i: number, j: number) => [number, number, number];
    readonly device_fromBytes: (a: number, b: number) => [number, number, number];
    readonly device_join: (a: number, b: number, c: number, d: number, e: number, f: number, g: number, h: number, i: number) => [number, number, number];
    readonly device_new: (a: number, b: number, c: number, d: number, e: number, f: number, g: number, h: number) => [number, number, number];
    readonly device_newPackage: (a: number, b: number) => [number, number, number];
    readonly device_toBytes: (a: number) => [number, number];
    readonly group_fromStored: (a: number, b: number, c: number, d: number) => [number, number, number];
    readonly group_open: (a: number, b: number, c: number, d: number, e: number, f: number, g: number, h: number) => [number, number, number];
    readonly group_seal: (a: number, b: number, c: number, d: number, e: number, f: number, g: number, h: number, i: number) => [number, number, number];
    readonly group_state: (a: number) => [number, number];
    readonly group_tree: (a: number) => [number, number];
    readonly moved_bytes: (a: number) => [number, number];
    readonly moved_group: (a: number) => number;
    readonly pending_next: (a: number) => number;
    readonly pending_welcome: (a: number) => [number, number];
    readonly __wbindgen_exn_store: (a: number) => void;
    readonly __externref_table_alloc: () => number;
    readonly __wbindgen_externrefs: WebAssembly.Table;
    readonly __wbindgen_malloc: (a: number, b: number) => number;
    readonly __wbindgen_realloc: (a: number, b: number, c: number, d: number) => number;
    readonly __wbindgen_free: (a: number, b: number, c: number) => void;
    readonly __externref_table_dealloc: (a: number) => void;
    readonly __wbindgen_start: () => void;
}

export type SyncInitInput = BufferSource | WebAssembly.Module;

/**
 * Instantiates the given `module`, which can either be bytes or
 * a precompiled `WebAssembly.Module`.
 *
 * @param {{ module: SyncInitInput }} module - Passing `SyncInitInput` directly is deprecated.
 *
 * @returns {InitOutput}
 */
export function initSync(module: { module: SyncInitInput } | SyncInitInput): InitOutput;

/**
 * If `module_or_path` is {RequestInfo} or {URL}, makes a request and
 * for everything else, calls `WebAssembly.instantiate` directly.
 *
 * @param {{ module_or_path: InitInput | Promise<InitInput> }} module_or_path - Passing `InitInput` directly is deprecated.
 *
 * @returns {Promise<InitOutput>}
 */
export default function __wbg_init (module_or_path?: { module_or_path: InitInput | Promise<InitInput> } | InitInput | Promise<InitInput>): Promise<InitOutput>;
