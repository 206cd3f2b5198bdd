// A scenario as the fragment of an address: raw deflate, in the alphabet of URLs.

/** The largest scenario that an address may unfold to, in bytes. */
const LARGEST = 1 << 20;

/** @param {string} text @returns {Promise<string>} */
export async function pack(text) {
  const packed = await through(new Blob([text]).stream(), new CompressionStream("deflate-raw"), Infinity);
  let binary = "";
  for (const byte of packed) binary += String.fromCharCode(byte);
  return `s=${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/**
 * The scenario of a fragment; null where it has none.
 * @param {string} fragment
 * @returns {Promise<string | null>}
 * @throws {Error} where the fragment is damaged or unfolds to more than a scenario
 */
export async function unpack(fragment) {
  const found = /^#?s=(.*)$/s.exec(fragment);
  if (!found) return null;
  if (!/^[\w-]*$/.test(found[1])) throw new Error("the address is damaged: it has characters that no shared scenario has");
  const binary = atob(found[1].replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
  try {
    const text = await through(new Blob([bytes]).stream(), new DecompressionStream("deflate-raw"), LARGEST);
    return new TextDecoder("utf-8", { fatal: true }).decode(text);
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw new Error("the address is damaged: its scenario cannot be unfolded");
  }
}

/**
 * @param {ReadableStream<any>} from
 * @param {GenericTransformStream} transform
 * @param {number} most
 */
async function through(from, transform, most) {
  const reader = from.pipeThrough(/** @type {any} */ (transform)).getReader();
  const parts = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > most) {
      void reader.cancel();
      throw new RangeError("the address unfolds to more than 1 MiB, which is no scenario");
    }
    parts.push(value);
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
