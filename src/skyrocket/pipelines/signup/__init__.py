"""The job `signup-demo`: a registration system on one machine, first in-line, then over a queue, with proof that nothing is lost.

sign_ups       the load: who registers when, with duplicates, late events and poison messages, drawn from a seed (pure)
services       SMS, push, coupons and red packets: who gets what, how long a step takes, when it fails (pure)
plan           when each thing happens: a service is killed, started again, another one joins (pure)
latencies      histograms and percentiles (pure)
funnel         registrations and steps of each minute (pure); `funnel_stream` counts them on Spark
findings       what is missing, done twice or unexpected (pure)
effect_ledger  a service's own database: its effects, each in one transaction with its claim
service_process, service_runner   a service as a process, and the handle with which the job starts and kills it
front_end      the sign-up page: takes the load, in-line or over the queue
job            puts them together
presentation   shows the result as a document, as text, as an HTML page (pure)
"""
