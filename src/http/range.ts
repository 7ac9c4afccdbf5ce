// Byte ranges: the Range header (RFC 9110, 14.2).
import { fault } from './fault.ts'

/**
 * The requested bytes, from `start` up to but not including `end`. Undefined means all: there is no header, its unit is not bytes, it cannot be parsed, or it
 * requests several ranges. A server may ignore all of these. @throws 416 when none of the bytes exist
 */
export function rangeOf(header: string | undefined, size: number): { start: number; end: number } | undefined {
  // Spaces are trimmed separately. Two adjacent patterns that both match them would try every split of a long run.
  const found = /^\s*bytes\s*=([\s\d]*)-([\s\d]*)$/i.exec(header ?? '')
  const [first, last] = [found?.[1]!.trim() ?? '', found?.[2]!.trim() ?? '']
  if ((first === '' && last === '') || /\s/.test(first + last)) return undefined
  if (first !== '' && last !== '' && Number(last) < Number(first)) return undefined
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1)
  if (start >= end) throw fault.noSuchRange(size)
  return { start, end }
}
