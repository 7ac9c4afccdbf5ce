// A lifecycle is a table: which state may follow which. The store moves rows along it by compare-and-set.

/** The states of one kind of thing and the moves between them. */
export interface Lifecycle<State extends string> {
  readonly states: readonly State[]
  /** Every state from which `to` may be entered. */
  from(to: State): State[]
  /** Whether `from -> to` is a move of the table. */
  allows(from: State, to: State): boolean
  /** Whether nothing can follow `state`. */
  isTerminal(state: State): boolean
}

/** Makes a lifecycle of a table `{state: [states that may follow]}`. */
export function lifecycle<State extends string>(table: Record<State, readonly NoInfer<State>[]>): Lifecycle<State> {
  const states = Object.keys(table) as State[]
  return {
    states,
    from: (to) => states.filter((state) => table[state].includes(to)),
    allows: (from, to) => table[from].includes(to),
    isTerminal: (state) => table[state].length === 0,
  }
}
