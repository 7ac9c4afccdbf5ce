// What a credential provider of any type can do, and how it says that it cannot.

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

/** What an item has, read when it is needed. */
export interface ItemValues {
  /** `username`, `password`, and others by the names that they have in the store. */
  values: Record<string, string>
  /** A base32 secret, or an otpauth:// URI. */
  totp: string | undefined
  urls: string[]
}

export interface Backend {
  /** Whether it may be asked at all: for servers, whether callers may reach them. @throws BackendProblem, as the others; the signal's reason */
  assertAllowed?(signal: AbortSignal): Promise<void>
  /** Whether the store can be opened. */
  test(signal: AbortSignal): Promise<Vault[]>
  listItems(signal: AbortSignal): Promise<Item[]>
  /** The values of an item that it has listed, read now. */
  resolve(item: Item, signal: AbortSignal): Promise<ItemValues>
}

/** Why a store does not answer. Its message is for callers: it never holds what was read from the store, or from its token. */
export class BackendProblem extends Error {
  override name = 'BackendProblem'
  /** The store answers, but has no such item any more. */
  readonly isMissing: boolean
  constructor(message: string, { isMissing = false } = {}) {
    super(message)
    this.isMissing = isMissing
  }
}

/** The most items that a store may have. Its list is held in memory. */
export const MOST_ITEMS = 10_000

/** @throws BackendProblem when there are too many */
export function assertFew(items: number): void {
  if (items > MOST_ITEMS) throw new BackendProblem(`the store has more than ${MOST_ITEMS} items, the limit`)
}

/** Parses what is read from a store. A parser's own error has parts of the text in it, so it is dropped. */
export function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new BackendProblem(`${what} is not JSON`)
  }
}

/** Names of values that stores have in common: what people call a user name. */
export const USER_NAMES = ['username', 'user', 'login']
