// What follows from the declared options when a session is made, changed and shown. Knows none of them by name.
import { z } from 'zod'
import type { Fit } from '../../../../agent/session/contract.ts'
import {
  createShape,
  type Booted,
  type CreateShape,
  type Options,
  type Place,
  type Refusal,
  type ReplyShape,
  type StoredOptions,
  type UpdateShape,
} from './option/contract.ts'

/** The parsed options of a create and of an update, and those of an answer. */
type Created<T extends Options> = z.output<z.ZodObject<CreateShape<T>>>
type Updated<T extends Options> = z.output<z.ZodObject<UpdateShape<T>>>
type Shown<T extends Options> = z.output<z.ZodObject<ReplyShape<T>>>

/** One option that an update changes. */
export interface Change<T extends Options> {
  name: string
  /** What changes in the row; undefined: nothing. */
  stored: Partial<StoredOptions<T>> | undefined
  fit: Fit
}

export interface OptionRules<T extends Options> {
  /** Why a create is refused by this service; undefined when it is not. */
  refuseCreate(given: Created<T>, place: Place): Refusal | undefined
  /** Why an update is refused for a browser that was booted and has options like that; undefined when it is not. */
  refuseUpdate(given: Updated<T>, row: Pick<Booted, 'maxScreen'> & StoredOptions<T>): Refusal | undefined
  /** The options of a new session, as its row has them. */
  stored(given: Created<T>): StoredOptions<T>
  /** What the browser of a new session is fitted to. */
  fit(given: Created<T>, booted: Omit<Booted, 'maxScreen'>): Fit
  /** What an update changes in a row with these options, in the order in which it is applied. */
  changes(given: Updated<T>, before: StoredOptions<T>): Change<T>[]
  /** Whether an update changes options of a row. */
  isStored(given: Updated<T>): boolean
  /** The options in a session's answer. An option that the row of an earlier version does not have is shown by its default. */
  shown(stored: StoredOptions<T>, place: Place): Shown<T>
}

/** The rules that follow from a list of options. Each of them may be left out of a create. */
export function optionRules<T extends Options>(options: T): OptionRules<T> {
  const each = Object.entries(options)
  // An option sees only its own value.
  const of = (values: object, name: string): unknown => (values as Record<string, unknown>)[name]
  const collect = (value: (option: Options[string], name: string) => unknown): Record<string, unknown> =>
    Object.fromEntries(each.map(([name, option]) => [name, value(option, name)] as const).filter(([, found]) => found !== undefined))
  const first = (refusal: (option: Options[string], name: string) => Refusal | undefined): Refusal | undefined => {
    for (const [name, option] of each) {
      const found = refusal(option, name)
      if (found) return found
    }
    return undefined
  }

  const stored: OptionRules<T>['stored'] = (given) => collect(({ store }, name) => store?.(of(given, name) as never)) as StoredOptions<T>
  const defaults = stored(z.object(createShape(options)).parse({}) as Created<T>)
  return {
    refuseCreate: (given, place) => first(({ refuseCreate }, name) => refuseCreate?.(of(given, name) as never, place)),
    refuseUpdate: (given, row) => first(({ refuseUpdate }, name) => refuseUpdate?.(of(given, name) as never, row, of(row, name) as never)),
    stored,
    fit: (given, booted) => Object.assign({}, ...each.map(([name, { fit }]) => fit?.(of(given, name) as never, booted))) as Fit,
    changes: (given, before) =>
      each
        .filter(([name]) => of(given, name) !== undefined)
        .map(([name, { restore, refit }]) => {
          const value = of(given, name) as never
          const after = restore?.(value, of(before, name) as never)
          return { name, stored: restore && ({ [name]: after } as Partial<StoredOptions<T>>), fit: refit?.(value, after as never) ?? {} }
        }),
    isStored: (given) => each.some(([name, { restore }]) => restore && of(given, name) !== undefined),
    shown: (row, place) =>
      collect(({ reply }, own) => {
        const name = reply?.of ?? own
        return reply?.show((Object.hasOwn(row, name) ? of(row, name) : of(defaults, name)) as never, place)
      }) as Shown<T>,
  }
}
