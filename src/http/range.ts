// Byte ranges: the Range header (RFC 9110, 14.2).
import { fault } from './fault.ts'

/**
 * The bytes that are asked for, from `start` up to but not including `end`. Undefined means the whole: there is no header, its unit is not bytes,
 * it cannot be parsed, or it asks for several ranges. A server may ignore all of these. @throws 416 when none of the bytes exist
 */
export function rangeOf(header: string | undefined, size: number): { start: number; end: number } | undefined {
  // Spaces are taken off apart from this. Two patterns in a row that both take them would try every split of a long run.
  const found = /^\s*bytes\s*=([\s\d]*)-([\s\d]*)$/i.exec(header ?? '')
  const [first, last] = [found?.[1]!.trim() ?? '', found?.[2]!.trim() ?? '']
  if ((first === '' && last === '') || /\s/.test(first + last)) return undefined
  if (first !== '' && last !== '' && Number(last) < Number(first)) return undefined
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1)
  if (start >= end) throw fault.noSuchRange(size)
  return { start, end }
}
