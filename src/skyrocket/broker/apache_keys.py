"""Keys of Apache's broker 5.5.0 (and 4.9) that a broker.conf may have and that are not settings of this broker.

They come from Apache's BrokerConfig, BrokerIdentity, MessageStoreConfig and AuthConfig; those of netty are in
`settings.foreign_keys`. A key that is neither here nor in `broker.settings` is a mistake, and the broker does not start.
"""

from __future__ import annotations

from typing import Final

from skyrocket.settings.foreign_keys import NETTY_KEYS, ForeignKey, only_with, without_effect

_THREADS = without_effect(
    "one thread serves all requests: there are no thread pools and no request queues",
    """
    sendMessageThreadPoolNums putMessageFutureThreadPoolNums pullMessageThreadPoolNums litePullMessageThreadPoolNums
    ackMessageThreadPoolNums processReplyMessageThreadPoolNums queryMessageThreadPoolNums adminBrokerThreadPoolNums
    clientManageThreadPoolNums consumerManageThreadPoolNums loadBalanceProcessorThreadPoolNums heartbeatThreadPoolNums
    recoverThreadPoolNums endTransactionThreadPoolNums checkTransactionMessageThreadPoolNums sendThreadPoolQueueCapacity
    putThreadPoolQueueCapacity pullThreadPoolQueueCapacity litePullThreadPoolQueueCapacity ackThreadPoolQueueCapacity
    replyThreadPoolQueueCapacity queryThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity
    consumerManagerThreadPoolQueueCapacity heartbeatThreadPoolQueueCapacity endTransactionPoolQueueCapacity
    adminBrokerThreadPoolQueueCapacity loadBalanceThreadPoolQueueCapacity batchDispatchRequestThreadPoolNums dispatchCqThreads
    dispatchCqCacheNum timerGetMessageThreadNum timerPutMessageThreadNum timerReputServiceCorePoolSize
    timerReputServiceMaxPoolSize timerReputServiceQueueCapacity waitTimeMillsInAckQueue waitTimeMillsInAdminBrokerQueue
    asyncSendEnable maxAsyncPutMessageRequests topicQueueLockNum useReentrantLockWhenPutMessage useABSLock
    spinLockCollisionRetreatOptimalDegree putMessageTimeout debugLockEnable dispatchFromSenderThread recoverConcurrently
    enableBuildConsumeQueueConcurrently enableAsyncReput enableFastChannelEventProcess
    """,
)

_FILES = (
    without_effect(
        "the store flushes, caches and deletes in its own way, with the same files",
        """
    flushCommitLogTimed flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval flushLeastPagesWhenWarmMapedFile
    flushDelayOffsetInterval flushConsumerOffsetHistoryInterval syncFlushTimeout wakeFlushWhenPutMessage
    wakeCommitWhenPutMessage commitIntervalCommitLog commitCommitLogLeastPages commitCommitLogThoroughInterval
    transientStorePoolEnable transientStorePoolSize fastFailIfNoBufferInStorePool sharedByteBufferNum warmMapedFileEnable
    mappedFileSwapEnable commitLogForceSwapMapInterval commitLogSwapMapInterval commitLogSwapMapReserveFileNum
    logicQueueForceSwapMapInterval logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum cleanSwapedMapInterval
    writeWithoutMmap putConsumeQueueDataByFileChannel accessMessageInMemoryHotRatio
    maxTransferBytesOnMessageInDisk maxTransferCountOnMessageInDisk transferMsgByHeap dataReadAheadEnable
    coldDataFlowControlEnable coldDataScanEnable coldCtrStrategyEnable usePIDColdCtrStrategy cgColdReadThreshold
    globalColdReadThreshold timerColdDataCheckIntervalMs deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval
    deleteFileBatchMax maxBatchDeleteFilesNum destroyMapedFileIntervalForcibly redeleteHangedFileInterval cleanResourceInterval
    logicalDiskSpaceCleanForciblyThreshold replicasPerDiskPartition diskFallRecorded checkCRCOnRecover
    checkCommitLogOffsetOnRecover commitLogRecoverMaxNum maxRecoveryCommitlogFiles enableAcceleratedRecovery
    enableLogConsumeQueueRepeatedlyBuildWhenRecover recheckReputOffsetFromCq maxChecksumRange correctLogicMinOffsetSleepInterval
    correctLogicMinOffsetForceInterval messageIndexSafe enabledAppendPropCRC forceVerifyPropCRC enableRunningFlagsInFlush
    travelCqFileNumWhenGetMessage maxConsumeQueueScan sampleSteps sampleCountThreshold searchBcqByCacheEnable
    mapperFileSizeBatchConsumeQueue putMsgIndexHightWater pullBatchMaxMessageCount maxFilterMessageSize
    maxTopicLength autoMessageVersionOnTopicLen enableCleanExpiredOffset disappearTimeAfterStart timerWheelSnapshotFlush
    timerWheelSnapshotIntervalMs timerProgressLogIntervalMs timerEnableCheckMetrics timerEnableRetryUntilSuccess
    timerSkipUnknownError timerMetricSmallThreshold timerRecallToTimeWheelEnable enableScheduleMessageStats
    enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked
    delayOffsetUpdateVersionStep consumerOffsetUpdateVersionStep persistConsumerOffsetIncrementally maxDelayTime
    indexFileReadEnable indexFileWriteEnable
    """,
    )
    | without_effect("Apache's broker ignores it too: the file is in storePathRootDir", "storeCheckpoint abortFile")
    | without_effect(
        "Apache's broker ignores it too: a key of older versions",
        "mapedFileSizeCommitLog mapedFileSizeConsumeQueue mapedFileSizeConsumeQueueExt checkTransactionMessageEnable",
    )
)

_ROCKSDB = without_effect(
    "nothing is stored in RocksDB",
    """
    rocksdbCQDoubleWriteEnable rocksdbCompressionType rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold enableRocksDBLog
    bottomMostCompressionTypeForConsumeQueueStore cleanRocksDBDirtyCQIntervalMin statRocksDBCQIntervalSec
    memTableFlushIntervalMs iteratorWhenUseRocksdbConsumeQueue useSeparateStorePathForRocksdbCQ realTimePersistRocksDBConfig
    useSingleRocksDBForAllConfigs maxRocksDBIndexQueryDays combineAssignOffsetCQType combineCQEnableCheckSelf
    combineCQLoadingCQTypes combineCQMaxExtraSearchCommitLogFiles combineCQPreferCQType combineCQUseRocksdbForLmq
    timerRocksDBPrecisionMs timerRocksDBRollIntervalHours timerRocksDBRollMaxTps timerRocksDBRollRangeHours timerRocksDBStopScan
    timerRocksDBTimeExpiredMaxTps timerRecallToTimelineEnable transactionCheckRocksdbCoreThreads
    transactionCheckRocksdbMaxThreads transactionCheckRocksdbQueueCapacity transWriteOriginTransHalfEnable
    """,
) | only_with(
    "nothing is stored in RocksDB",
    {
        "storeType": "default",
        "timerRocksDBEnable": "false",
        "transRocksDBEnable": "false",
        "indexRocksDBEnable": "false",
        "configManagerVersion": "V1",
    },
)

_REPLICATION = (
    without_effect(
        "masters feed their slaves, and slaves copy tables, in this broker's own way",
        """
    haFlowControlEnable haMaxGapNotInSync haMaxTimeSlaveNotCatchup haSlaveFallbehindMax maxHaTransferByteInSecond
    maxSlaveResendLength syncFromLastFile syncMasterFlushOffsetWhenStartup
    """,
    )
    | without_effect("a slave never moves a consumer to another offset", "offsetCheckInSlave")
    | without_effect(
        "there is no controller, and no slave stands in for its master",
        """
    asyncLearner enableAutoInSyncReplicas checkSyncStateSetPeriod syncBrokerMetadataPeriod syncBrokerMemberGroupPeriod
    syncControllerMetadataPeriod controllerAddr controllerHeartBeatTimeoutMills fetchControllerAddrByDnsLookup
    brokerElectionPriority enableRemoteEscape skipPreOnline cleanOfflineBrokerInterval brokerHeartbeatInterval
    sendHeartbeatTimeoutMillis brokerNotActiveTimeoutMillis compatibleWithOldNameSrv storePathEpochFile storePathBrokerIdentity
    inBrokerContainer
    """,
    )
    | only_with(
        "there is no controller, and no slave stands in for its master",
        {
            "enableControllerMode": "false",
            "enableSlaveActingMaster": "false",
            "duplicationEnable": "false",
            "totalReplicas": "1",
            "minInSyncReplicas": "1",
            "allAckInSyncStateSet": "false",
        },
    )
)

_ACCESS_CONTROL = without_effect(
    "users and rules are in one file, and every request is checked against them",
    """
    authConfigPath authenticationMetadataProvider authenticationProvider authenticationStrategy authorizationMetadataProvider
    authorizationProvider authorizationStrategy clusterName configName aclCacheExpiredSecond aclCacheMaxNum
    aclCacheRefreshSecond userCacheExpiredSecond userCacheMaxNum userCacheRefreshSecond statefulAuthenticationCacheExpiredSecond
    statefulAuthenticationCacheMaxNum statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum
    """,
) | only_with(
    "access control of RocketMQ 4 is converted: see migrateAuthFromV1Enabled and skyrocket acl convert",
    {"aclEnable": "false"},
)

_POP = without_effect(
    "POP consumption, lite topics and compacted topics do not exist here",
    """
    appendAckAsync appendCkAsync defaultPopShareQueueNum enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag
    enablePopBatchAck enablePopBufferMerge enablePopLog enablePopMessageThreshold enablePopMetrics enableRetryTopicV2
    enableSkipLongAwaitingAck initPopOffsetByCheckMsgInMem maxPopPollingSize popCkMaxBufferSize popCkOffsetMaxQueueSize
    popCkStayBufferTime popCkStayBufferTimeOut popConsumerFSServiceInit popConsumerKVServiceEnable popConsumerKVServiceInit
    popConsumerKVServiceLog popFromRetryProbability popFromRetryProbabilityForPriority popInflightMessageThreshold
    popLongPollingForceNotifyInterval popPollingMapExpireTimeSeconds popPollingMapSize popPollingSize
    popResponseReturnActualRetryTopic popReviveConcurrency popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead
    popReviveSkipIfGroupAbsent retrieveMessageFromPopRetryTopicV1 reviveAckWaitMs reviveInterval reviveMaxSlow reviveQueueNum
    reviveScanTime serverLoadBalancerEnable skipWhenCKRePutReachMaxTimes useMessageFilterForNotification useSeparateRetryQueue
    loadBalancePollNameServerInterval priorityOrderAsc enableLiteEventMode enableLitePopLog enableLmqStats enableLmqQuota
    maxLmqConsumeQueueNum liteEventCheckInterval liteEventFullDispatchDelayTime liteEventFullDispatchDelayTimeForWildcardGroup
    liteLagCountMetricsEnable liteLagLatencyCollectEnable liteLagLatencyMetricsEnable liteLagLatencyTopK
    liteSubscriptionCheckInterval liteSubscriptionCheckTimeoutMills liteTtlCheckInterval minLiteTTl maxClientEventCount
    maxLiteSubscriptionCount maxMessageFilterNumForNotification enableCompaction compactionCqMappedFileSize
    compactionMappedFileSize compactionScheduleInternal compactionThreadNum maxOffsetMapSize
    """,
) | only_with(
    "POP consumption and lite topics do not exist here",
    {"defaultMessageRequestMode": "PULL", "enableLmq": "false", "enableMultiDispatch": "false"},
)

_FIGURES = without_effect(
    "figures are kept and shown in this broker's own way",
    """
    accountStatsEnable accountStatsPrintZeroValues autoDeleteUnusedStats commercialBaseCount commercialSizePerMsg
    commercialBigCount commercialEnable commercialTimerCount commercialTransCount enableConnectionMetrics enableDetailStat
    enableLagAndDlqMetrics enableMessageStoreMetrics enableRemotingMetrics enableRequestMetrics enableStatsMetrics
    enableTransactionMetrics estimateAccumulation isolateLogEnable maxStatsIdleTimeInMinutes
    metricLoggingExporterIntervalInMills metricsExportBatchMaxDataPoints
    metricsInDelta
    printChannelGroups printChannelGroupsMinNum transactionMetricFlushInterval
    """,
)

_CLIENTS = without_effect(
    "clients, filters and topics are handled in one fixed way",
    """
    brokerTopicEnable clusterTopicEnable enableCreateSysGroup enableMixedMessageType enableRegisterProducer
    broadcastOffsetExpireMaxSecond broadcastOffsetExpireSecond enableBroadcastOffsetStore channelExpiredTimeout
    subscriptionExpiredTimeout clearRetryTopicWhenDeleteTopic enableCalcFilterBitMap expectConsumerNumUseFilter
    maxErrorRateOfBloomFilter filterDataCleanTimeSpan filterServerNums bitMapLengthConsumeQueueExt mappedFileSizeConsumeQueueExt
    enableNetWorkFlowControl realTimeNotifyConsumerChange useServerSideResetOffset useStaticSubscription highSpeedMode
    forwardTimeout
    """,
) | only_with(
    "this broker does not have that choice",
    {
        "enableConsumeQueueExt": "false",
        "filterSupportRetry": "false",
        "litePullMessageEnable": "true",
        "lockInStrictMode": "false",
        "notifyConsumerIdsChangedEnable": "true",
        "readUnCommitted": "false",
        "rejectPullConsumerEnable": "false",
        "startAcceptSendRequestTimeStamp": "0",
        "timerInterceptDelayLevel": "false",
        "timerStopEnqueue": "false",
        "validateSystemTopicWhenUpdateTopic": "true",
        "cleanFileForciblyEnable": "true",
        "fetchNameSrvAddrByDnsLookup": "false",
    },
)

_PLACES = without_effect(
    "the broker needs no installation directory, and no request changes a path or an address", "rocketmqHome configBlackList"
) | without_effect(
    "the broker registers all its topics with one request, uncompressed",
    """
    compressedRegister enableSingleTopicRegister enableSplitMetadata enableSplitRegistration forceRegister splitMetadataSize
    splitRegistrationSize updateNameServerAddrPeriod
    """,
)

_STORAGE = only_with(
    "messages are stored in storePathRootDir only", {"messageStorePlugIn": "", "readOnlyCommitLogStorePaths": ""}
)

APACHE_KEYS: Final[dict[str, ForeignKey]] = {
    **NETTY_KEYS,
    **_THREADS,
    **_FILES,
    **_ROCKSDB,
    **_REPLICATION,
    **_ACCESS_CONTROL,
    **_POP,
    **_FIGURES,
    **_CLIENTS,
    **_PLACES,
    **_STORAGE,
}
