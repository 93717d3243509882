"""What every store answers to the pages of the dashboard: exact sums, whole lists, cut texts.

A store without SQL passes it by PlainAnalytics, but for what the class attributes say.
"""

from __future__ import annotations

from tests.contracts.store_analytics_details import AnalyticsDetailsContract
from tests.contracts.store_analytics_figures import AnalyticsFiguresContract
from tests.contracts.store_analytics_lists import AnalyticsListsContract


class AnalyticsContract(AnalyticsFiguresContract, AnalyticsListsContract, AnalyticsDetailsContract):
    """Part of SQLStoreContract."""
