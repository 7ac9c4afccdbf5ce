// Tokens that are JSON: parsed, with an error that names the field but never the value.
import * as z from 'zod'

/** A token of the wrong form. The message is for callers. */
export class WrongToken extends Error {
  override name = 'WrongToken'
}

/** @throws WrongToken */
export function jsonToken<T>(schema: z.ZodType<T>, token: string): T {
  const parsed = schema.safeParse(asJson(token))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const field = issue?.path.map(String).join('.') ?? ''
  const problem = issue?.code === 'unrecognized_keys' ? 'has a property that is not known' : (issue?.message ?? 'is wrong').replace(/^Invalid input: /, '')
  throw new WrongToken(`${field === '' ? '' : `its property "${field}": `}${problem}`)
}

function asJson(token: string): unknown {
  try {
    return JSON.parse(token) as unknown
  } catch {
    // The parser's error contains parts of the token.
    throw new WrongToken('must be JSON for this type')
  }
}

/** A path below the folder of credential files. */
export const FilePath = z
  .string()
  .min(1)
  .max(1024)
  .refine((path) => !path.includes('\0') && !path.split('/').includes('..'), 'must be a path without ".."')

const isHttp = (text: string): boolean => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url !== undefined && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#]/.test(text)
}

/** The HTTP address of a store; without a slash at its end. */
export const Address = z
  .string()
  .max(2048)
  .refine(isHttp, 'must be an http or https URL without user, query and fragment')
  .transform((text) => new URL(text).href.replace(/\/+$/, ''))
