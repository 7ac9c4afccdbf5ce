// The thumbnail contract.
import type { Handlers } from '../../http/route.ts'
import type { thumbnail } from './contract.ts'
import type { Thumbnails } from './thumbnail.ts'

export const thumbnailHandlers = (take: Thumbnails): Handlers<typeof thumbnail> => ({
  async readThumbnail({ query: { known }, signal }) {
    const { tag, png } = await take(signal)
    return { tag, png: tag === known ? null : png }
  },
})
