// The interface of a credential provider of any type, and its errors.

export interface Vault {
  id: string
  name: string
}

/** An item without its values. */
export interface Item {
  id: string
  title: string
  vault: Vault
  urls: string[]
}

/** The content of an item, read when it is needed. */
export interface ItemValues {
  /** `username`, `password`, and others under their names in the store. */
  values: Record<string, string>
  /** A base32 secret, or an otpauth:// URI. */
  totp: string | undefined
  urls: string[]
}

export interface Backend {
  /** Checks whether the store may be contacted: for servers, whether callers may reach them. @throws BackendProblem, like the others; the signal's reason */
  assertAllowed?(signal: AbortSignal): Promise<void>
  /** Checks whether the store can be opened. */
  test(signal: AbortSignal): Promise<Vault[]>
  listItems(signal: AbortSignal): Promise<Item[]>
  /** The present values of a listed item. */
  resolve(item: Item, signal: AbortSignal): Promise<ItemValues>
}

/** The reason why a store fails. Its message is for callers: it never contains data from the store, or the token. */
export class BackendProblem extends Error {
  override name = 'BackendProblem'
  /** The store works, but the item does not exist any more. */
  readonly isMissing: boolean
  constructor(message: string, { isMissing = false } = {}) {
    super(message)
    this.isMissing = isMissing
  }
}

/** Most items of a store. Its list is in memory. */
export const MOST_ITEMS = 10_000

/** @throws BackendProblem when there are too many */
export function assertFew(items: number): void {
  if (items > MOST_ITEMS) throw new BackendProblem(`the store has more than ${MOST_ITEMS} items, the limit`)
}

/** Parses data from a store. A parser's own error contains parts of the text, so it is dropped. */
export function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new BackendProblem(`${what} is not JSON`)
  }
}
