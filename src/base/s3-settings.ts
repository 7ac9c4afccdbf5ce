// The settings of a bucket for objects.
import { ConfigError, needed, origin } from './setting.ts'

/** Where objects are kept when not as files. */
export interface S3Settings {
  bucket: string
  /** Origin of an S3 server; undefined means Amazon's in `region`. */
  endpoint: string | undefined
  region: string
  accessKeyId: string
  secretAccessKey: string
  /** All keys begin with it and a `/`. */
  prefix: string
}

const S3_PREFIX = /^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/

// All or nothing: a bucket that is named only in part would leave objects in the data directory, where nobody expects them.
export function s3Settings(env: NodeJS.ProcessEnv): S3Settings | undefined {
  const bucket = env.COB_S3_BUCKET
  const others = ['COB_S3_ENDPOINT', 'COB_S3_REGION', 'COB_S3_ACCESS_KEY_ID', 'COB_S3_SECRET_ACCESS_KEY', 'COB_S3_PREFIX'].filter((name) => env[name])
  if (!bucket) {
    if (others.length > 0) throw new ConfigError('COB_S3_BUCKET', `must be set too, because ${others[0]} is set`)
    return undefined
  }
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$/.test(bucket)) throw new ConfigError('COB_S3_BUCKET', 'must be the name of a bucket, without a scheme or a path')
  const endpoint = origin(env, 'COB_S3_ENDPOINT')
  const prefix = env.COB_S3_PREFIX || 'cob'
  if (!S3_PREFIX.test(prefix)) throw new ConfigError('COB_S3_PREFIX', 'must be letters, digits, ".", "_" and "-", in segments joined by "/"')
  return {
    bucket,
    endpoint,
    region: env.COB_S3_REGION || endpoint === undefined ? needed(env, 'COB_S3_REGION', 'COB_S3_BUCKET is set without COB_S3_ENDPOINT') : 'us-east-1',
    accessKeyId: needed(env, 'COB_S3_ACCESS_KEY_ID', 'COB_S3_BUCKET is set'),
    secretAccessKey: needed(env, 'COB_S3_SECRET_ACCESS_KEY', 'COB_S3_BUCKET is set'),
    prefix,
  }
}
