// Translates errors of the file system into messages for the caller.
import { fault } from '../../http/fault.ts'

/** The problem of a path, by error code (errno(3)). */
const PROBLEMS: Record<string, string> = {
  EACCES: 'permission denied',
  EPERM: 'the operation is not permitted',
  EROFS: 'lies where nothing can be changed (a read-only file system)',
  EEXIST: 'exists already',
  ENOTEMPTY: 'is a directory that is not empty',
  ENOTDIR: 'is not a directory, or leads through something that is none',
  EISDIR: 'is a directory',
  ENAMETOOLONG: 'is too long, or has a name of more than 255 bytes in it',
  ELOOP: 'leads through too many symbolic links',
  EINVAL: 'cannot be used for this',
  EBUSY: 'is in use by the system',
  ETXTBSY: 'is a program that runs',
  EFBIG: 'is larger than a file may be',
  ENXIO: 'is not a regular file',
  ENODEV: 'is not a regular file',
  EIO: 'cannot be read',
  EMLINK: 'has too many links',
  ENOTSUP: 'does not support this',
}

/** Error codes of problems that the caller cannot fix. */
const SHORTAGES: Record<string, string> = {
  ENOSPC: 'there is no space left on the disk',
  EDQUOT: 'there is no space left on the disk',
  ENOMEM: 'there is no memory left in the session',
  EMFILE: 'too many files are open in the session',
  ENFILE: 'too many files are open on the machine',
}

/** The fault for an error with `path`, which the caller gave in `field`; other errors are returned unchanged. */
export function fileFault(error: unknown, field: string, path: string): unknown {
  const code = (error as NodeJS.ErrnoException | null)?.code ?? ''
  if (code === 'ENOENT') return fault.notFound('file or directory', path)
  if (code in SHORTAGES) return fault.unavailable(SHORTAGES[code]!, error)
  return code in PROBLEMS ? fault.field(field, PROBLEMS[code]!) : error
}

/** Runs `work` and turns errors of the file system into faults that name `field`. */
export async function onPath<T>(field: string, path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw fileFault(error, field, path)
  }
}
