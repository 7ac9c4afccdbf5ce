// Chooses the object store by the settings.
import type { S3Settings } from '../base/s3-settings.ts'
import { fileObjects } from './objects-files.ts'
import type { Objects } from './objects.ts'

/** The bucket of these settings; without them the folder `dir`. */
export async function makeObjects(dir: string, s3: S3Settings | undefined): Promise<Objects> {
  // The S3 client is large; services without a bucket do not load it.
  return s3 ? (await import('./objects-s3.ts')).s3Objects(s3) : fileObjects(dir)
}
