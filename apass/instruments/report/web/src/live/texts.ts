// The texts of the model in the events of a job: each is the difference from an earlier one.

import { inflateSync } from "fflate";
import { bytes, visible } from "../shared/model";
import { ServerEvent } from "./api";

const WINDOW = 1 << 15;
const MOST_CACHED = 24;

interface Packed {
  base: number; // -1 for none
  head: number;
  tail: number;
  data: string;
}

export class Texts {
  private readonly packed = new Map<number, Packed>();
  private readonly cache = new Map<number, Uint8Array>();
  private readonly decoder = new TextDecoder();

  /** Keep the text of an event. */
  add(event: ServerEvent): void {
    const { text, data, base = -1, head = 0, tail = 0 } = event as unknown as Partial<Packed> & { text: number };
    // Without its base, which may be among the events that were dropped, a text cannot be read.
    if (data !== undefined && (base < 0 || this.packed.has(base))) this.packed.set(text, { base, head, tail, data });
  }

  has(index: number): boolean {
    return this.packed.has(index);
  }

  read(index: number): string {
    return this.packed.has(index) ? visible(this.decoder.decode(this.bytesOf(index))) : "";
  }

  private bytesOf(index: number): Uint8Array {
    // A chain may be longer than the stack is deep.
    const chain: number[] = [];
    for (let at = index; at >= 0 && !this.cache.has(at); at = this.packed.get(at)!.base) chain.push(at);
    for (const at of chain.reverse()) this.keep(at, this.unpack(this.packed.get(at)!));
    const made = this.cache.get(index)!;
    this.keep(index, made);
    return made;
  }

  private unpack({ base, head, tail, data }: Packed): Uint8Array {
    const packed = bytes(data);
    if (base < 0) return inflateSync(packed);
    const whole = this.cache.get(base)!;
    const replaced = whole.subarray(head, whole.length - tail);
    const middle = inflateSync(packed, replaced.length ? { dictionary: replaced.slice(-WINDOW) } : undefined);
    const made = new Uint8Array(head + middle.length + tail);
    made.set(whole.subarray(0, head));
    made.set(middle, head);
    made.set(whole.subarray(whole.length - tail), head + middle.length);
    return made;
  }

  private keep(index: number, made: Uint8Array): void {
    this.cache.delete(index);
    this.cache.set(index, made);
    if (this.cache.size > MOST_CACHED) this.cache.delete(this.cache.keys().next().value!);
  }
}
