// Recognises captchas that need a person: by the hosts of their frames, and by their names in the page.
import type { Frame } from '../../../../agent/login/contract.ts'
import type { View } from './view.ts'
import { tokensOf } from './words.ts'

const CAPTCHA_FRAMES: [host: RegExp, path: RegExp | undefined][] = [
  [/(^|\.)(google\.com|recaptcha\.net|gstatic\.cn)$/, /\/recaptcha\//],
  [/(^|\.)hcaptcha\.com$/, undefined],
  [/^challenges\.cloudflare\.com$/, undefined],
  [/(^|\.)(arkoselabs|funcaptcha)\.com$/, undefined],
  [/(^|\.)geetest\.com$/, undefined],
  [/(^|\.)(captcha-delivery|datado\.me)\.com$/, undefined],
  [/(^|\.)px-cloud\.net$/, undefined],
  [/(^|\.)awswaf\.com$/, undefined],
  [/(^|\.)friendlycaptcha\.(com|eu)$/, undefined],
  [/(^|\.)captcha\.yandex\.(net|ru|com)$/, undefined],
]
const NAMES = /captcha|turnstile|arkose|funcaptcha|geetest|friendly.?challenge/i
/** A badge in a corner (256 x 60) only shows that a page is protected. A widget with a box is higher, and a puzzle larger. */
const LEAST_WIDGET = { width: 200, height: 62 }
const LEAST_PUZZLE = { width: 280, height: 280 }

/** `widget`: a box to tick beside a form. `puzzle`: it covers the page. */
export function captchaOf(view: View): 'widget' | 'puzzle' | undefined {
  const frames = view.model.frames.slice(1).filter((frame) => frame.visible && isCaptcha(frame) && !/[?&#]size=invisible/.test(frame.url))
  if (frames.some(({ box }) => box.width >= LEAST_PUZZLE.width && box.height >= LEAST_PUZZLE.height)) return 'puzzle'
  if (frames.some(({ box }) => box.width >= LEAST_WIDGET.width && box.height >= LEAST_WIDGET.height)) return 'widget'
  // Widgets without their own frame: a box or button with such a label.
  const isNamed = view.seen.some(
    ({ control, label, isField }) => !isField && (NAMES.test(`${control.name} ${control.id}`) || (label.has('human') && tokensOf(control.label).length < 12)),
  )
  return isNamed ? 'widget' : undefined
}

function isCaptcha({ host, url, title, name }: Frame): boolean {
  if (NAMES.test(title) || NAMES.test(name)) return true
  return CAPTCHA_FRAMES.some(([hosts, path]) => hosts.test(host) && (path === undefined || path.test(url)))
}
