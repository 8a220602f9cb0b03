// Prints the rows of Parquet files as another program reads them: one JSON object a
// line, with whole numbers in all their digits, bytes as {"$base64"} and times as
// {"$us"}, microseconds since 1970.
//
//	node read.mjs duckdb|polars|hyparquet FILE...
import { createWriteStream } from 'node:fs'

const text = (v) => {
  if (v === null || v === undefined) return 'null'
  switch (typeof v) {
    case 'bigint': return v.toString()
    case 'number': return Number.isFinite(v) ? String(v) : `{"$float":"${v}"}`
    case 'string':
    case 'boolean': return JSON.stringify(v)
  }
  if (v instanceof Uint8Array) return `{"$base64":"${Buffer.from(v).toString('base64')}"}`
  if (Array.isArray(v)) return `[${v.map(text).join(',')}]`
  return `{${Object.entries(v).map(([k, x]) => `${JSON.stringify(k)}:${text(x)}`).join(',')}}`
}

async function* duckdb(files) {
  const { DuckDBInstance, DuckDBListValue, DuckDBStructValue, DuckDBTimestampTZValue, DuckDBBlobValue } = await import('@duckdb/node-api')
  const plain = (v) => {
    if (v instanceof DuckDBListValue) return v.items.map(plain)
    if (v instanceof DuckDBStructValue) return Object.fromEntries(Object.entries(v.entries).map(([k, x]) => [k, plain(x)]))
    if (v instanceof DuckDBTimestampTZValue) return { $us: v.micros }
    if (v instanceof DuckDBBlobValue) return v.bytes
    return v
  }
  const db = await (await DuckDBInstance.create(':memory:', { threads: '1' })).connect()
  const list = files.map((f) => `'${f.replaceAll("'", "''")}'`).join(',')
  const result = await db.stream(`SELECT * FROM read_parquet([${list}])`) // one schema for all of them
  const names = result.columnNames()
  for (;;) {
    const chunk = await result.fetchChunk()
    if (!chunk || chunk.rowCount === 0) return
    for (const row of chunk.getRows()) yield Object.fromEntries(names.map((n, i) => [n, plain(row[i])]))
  }
}

// Its own JSON keeps every digit, which its objects do not. Times have no form in it that
// does, so they become numbers before; bytes have none at all, here or in its objects.
async function* polars(files) {
  const pl = (await import('nodejs-polars')).default
  for (const file of files) {
    let df = pl.readParquet(file)
    df = df.select(...df.columns.filter((name) => name !== process.env.WITHOUT))
    for (const [name, type] of Object.entries(df.schema)) {
      if (type.variant === 'Datetime') df = df.withColumn(pl.col(name).cast(pl.Int64))
    }
    for (const line of df.writeJSON({ format: 'lines' }).toString().split('\n')) {
      if (line !== '') yield line
    }
  }
}

async function* hyparquet(files) {
  const { asyncBufferFromFile, parquetReadObjects } = await import('hyparquet')
  const { compressors } = await import('hyparquet-compressors')
  const { DEFAULT_PARSERS } = await import('hyparquet/src/convert.js')
  const parsers = { ...DEFAULT_PARSERS, timestampFromMicroseconds: (us) => ({ $us: us }) }
  for (const file of files) {
    yield* await parquetReadObjects({ file: await asyncBufferFromFile(file), compressors, parsers, utf8: false })
  }
}

const [, , reader, ...files] = process.argv
const out = createWriteStream(null, { fd: 1 })
for await (const row of { duckdb, polars, hyparquet }[reader](files)) {
  const line = typeof row === 'string' ? row : text(row)
  if (!out.write(line + '\n')) await new Promise((go) => out.once('drain', go))
}
await new Promise((go) => out.end(go))
