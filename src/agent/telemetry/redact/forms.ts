// The forms in which pages pass a value on: as it is, in JSON, in JSON within JSON, in HTML, in URLs and forms, and in base64.

/** The least of a value that has to be in a longer base64 text. */
const MIN_BASE64 = 5

/** All forms of a value that have at least so many characters. */
export function formsOf(value: string, minLength: number): string[] {
  const forms = [...readingsOf(value)].filter((reading) => reading.length >= minLength).flatMap(encodingsOf)
  return [...new Set(forms)].filter((form) => form.length >= minLength)
}

/** What a program may make of the value before it passes it on. */
function readingsOf(value: string): Set<string> {
  const trimmed = value.trim()
  const readings = new Set([value, trimmed, value.normalize('NFC'), value.normalize('NFD')])
  if (/^\d[\d\s-]{2,}\d$/.test(trimmed)) {
    const digits = trimmed.replaceAll(/[\s-]/g, '')
    readings.add(digits)
    // Numbers of cards are shown so.
    if (digits.length >= 12 && digits.length <= 19) for (const space of [' ', '-']) readings.add(digits.match(/\d{1,4}/g)!.join(space))
  }
  return readings
}

function encodingsOf(value: string): string[] {
  const json = escaped(value)
  const ascii = json.replaceAll(/[\u0080-\uFFFF]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  const plain = [value, json, ascii, escaped(json), escaped(ascii), html(value), value.replaceAll('/', String.raw`\/`)]
  const query = plain.slice(0, 2).flatMap((text) => {
    const encoded = encodeURIComponent(text)
    // Forms escape some characters that encodeURIComponent leaves.
    const form = new URLSearchParams([['', text]]).toString().slice(1)
    const strict = encoded.replaceAll(/[!'()*~]/g, hex)
    const loose = encodeURI(text)
    // As the path of an address, and what Chromium escapes in a query that a person or a page has written.
    const address = new URL(`http://a/?${loose.replaceAll('#', '%23')}`).search.slice(1)
    const once = [encoded, form, form.replaceAll('+', '%20'), strict, loose, address, latin(text)]
    return [...once, ...once.map(lowerHex), ...once.map((part) => encodeURIComponent(part))]
  })
  return [...plain, ...query, ...base64Forms(value)]
}

const escaped = (text: string): string => JSON.stringify(text).slice(1, -1)
const hex = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`
const lowerHex = (text: string): string => text.replaceAll(/%[\dA-F]{2}/g, (part) => part.toLowerCase())
/** As the old function `escape` of JavaScript has it. */
const latin = (text: string): string =>
  text.replaceAll(/[^\w@*+./-]/g, (unit) => {
    const digits = unit.charCodeAt(0).toString(16).toUpperCase()
    return digits.length > 2 ? `%u${digits.padStart(4, '0')}` : `%${digits.padStart(2, '0')}`
  })
const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const html = (text: string): string => text.replaceAll(/[&<>"']/g, (char) => ENTITIES[char]!)

/**
 * What of the value is in any base64 text of which it is a part, as in `Basic` with the user's name before it. Three bytes are four characters, so there are three ways
 * in which it can lie; characters that its neighbours share are left out.
 */
function base64Forms(value: string): string[] {
  const bytes = Buffer.from(value)
  const forms: string[] = []
  for (let before = 0; before < 3; before++) {
    const text = Buffer.concat([Buffer.alloc(before), bytes, Buffer.alloc(2)]).toString('base64')
    const part = text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
    if (part.length >= MIN_BASE64) forms.push(part, part.replaceAll('+', '-').replaceAll('/', '_'), encodeURIComponent(part))
  }
  return forms
}
